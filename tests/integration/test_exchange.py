"""The engine's own commands sign, list and exchange images that are written here."""

import json
import shutil
from pathlib import Path

import pytest

from ..packages import write_wheel
from .conftest import ENGINE, check_output, digest, lumicontainer
from .registries import registry


@pytest.fixture(params=["built", "extended"])
def image(request: pytest.FixtureRequest, small: Path, tmp_path: Path) -> Path:
    """Return an image that a build wrote, or that an extension became a layer of."""
    path = tmp_path / "image.sif"
    if request.param == "built":
        return Path(shutil.copy(small, path))
    write_wheel(tmp_path, "ready", "1.0")
    (wheel,) = tmp_path.glob("*.whl")
    lumicontainer("extend", small, f"./{wheel.name}", "--into", path, cwd=tmp_path, code=0)
    return path


@pytest.fixture
def keys(tmp_path: Path) -> dict[str, str]:
    """Make a pair of keys for signatures; return the variables that name their folder."""
    folder = tmp_path / "keys"
    folder.mkdir(mode=0o700)
    env = {"APPTAINER_KEYSDIR": str(folder), "SINGULARITY_KEYSDIR": str(folder)}
    names = ("-N", "test", "-E", "test@example.org", "-C", "", "-P", "", "-U=false")
    check_output(ENGINE, "key", "newpair", *names, env=env)
    return env


def test_the_engine_signs_lists_and_inspects_an_image(image: Path, keys: dict[str, str]) -> None:
    check_output(ENGINE, "sign", image, env=keys)
    check_output(ENGINE, "verify", "--local", image, env=keys)
    listed = check_output(ENGINE, "sif", "list", image)
    assert "FS (Squashfs/*System/amd64)" in listed
    assert "Signature" in listed
    shown = json.loads(check_output(ENGINE, "inspect", "--json", "--labels", image))
    assert "org.opencontainers.image.title" in shown["data"]["attributes"]["labels"]


def test_the_engine_pushes_an_image_to_a_registry_and_pulls_the_same(
    image: Path, tmp_path: Path
) -> None:
    pulled = tmp_path / "pulled.sif"
    with registry(tmp_path / "registry") as here:
        name = f"oras://{here}/image:1"
        check_output(ENGINE, "push", "--no-https", "--allow-unsigned", image, name)
        check_output(ENGINE, "pull", "--no-https", pulled, name)
    assert digest(pulled) == digest(image)
