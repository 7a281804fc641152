"""The image with JAX trains, and its check finds a JAX that trains wrongly."""

from pathlib import Path

import pytest

from ..integration.conftest import lumicontainer
from .breaking import Broken, caught, holds

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
    image = tmp_path_factory.mktemp("jax") / "jax.sif"
    done = lumicontainer("build", "jax", "--output", image, "-q")
    assert done.returncode == 0, done.stderr
    return image


def test_the_image_trains(jax_image: Path, broken: Broken) -> None:
    holds(broken.verify(jax_image, CHECK))


@pytest.mark.parametrize(
    ("factor", "reason"), [("0", "the loss does not fall in"), ("1.01", "away from NumPy's")]
)
def test_wrong_gradients_fail(jax_image: Path, broken: Broken, factor: str, reason: str) -> None:
    caught(broken.first(FAULT.format(factor=factor)).verify(jax_image, CHECK), reason)
