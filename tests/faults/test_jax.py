"""The image with JAX trains, and its check finds a JAX that trains wrongly."""

from pathlib import Path

import pytest

from ..integration.conftest import lumicontainer
from .breaking import SITE, Broken, caught, holds

CHECK = "jax/training"
FAULT = """\
import jax
right = jax.value_and_grad
def wrong(function):
    def changed(weights):
        value, gradient = right(function)(weights)
        return value, {factor} * gradient
    return changed
jax.value_and_grad = wrong
"""


@pytest.fixture(scope="module")
def jax_image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the image of the recipe jax."""
    image = tmp_path_factory.mktemp("jax") / "jax.sif"
    done = lumicontainer("build", "jax", "--output", image, "-q")
    assert done.returncode == 0, done.stderr
    return image


def test_the_image_trains(jax_image: Path, tmp_path: Path) -> None:
    holds(Broken(tmp_path).verify(jax_image, CHECK))


@pytest.mark.parametrize(
    ("factor", "reason"),
    [("0", "the loss does not fall in"), ("1.01", "away from NumPy's")],
)
def test_wrong_gradients_are_found(
    jax_image: Path, tmp_path: Path, factor: str, reason: str
) -> None:
    image = Broken(tmp_path).write(f"{SITE}/fault.py", FAULT.format(factor=factor))
    image.write(f"{SITE}/fault.pth", "import fault\n")
    caught(image.verify(jax_image, CHECK), reason)
