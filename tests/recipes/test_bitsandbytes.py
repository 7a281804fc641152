"""The layer ``bitsandbytes`` keeps the libraries that PyTorch can load, of many in the wheel."""

import shutil
import subprocess
import sys
from importlib.metadata import PathDistribution
from pathlib import Path

import pytest

from lumicontainer.inside.elf.fatbin import codes

from ..faults.real import published_wheel
from .scripts import LAYERS, Place, Ran, make_wheel

REQUIREMENTS = LAYERS / "bitsandbytes/requirements.txt"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder = tmp_path_factory.mktemp("place")
    shutil.copy(published_wheel(REQUIREMENTS.read_text().split()[0]), folder)
    subprocess.run([sys.executable, "-m", "venv", folder / "environment"], check=True)
    return Place(folder / "environment/bin/python", folder, folder)


def install(place: Place, torch: str) -> Ran:
    """Install the layer beside a PyTorch of a version."""
    for left in (*place.site.glob("torch*"), *place.site.glob("bitsandbytes*")):
        shutil.rmtree(left)
    wheel = make_wheel(place.folder, f"torch-{torch}-py3-none-any.whl", {"torch/__init__.py": ""})
    pip = [place.python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", wheel]
    subprocess.run(pip, check=True)
    wheel.unlink()
    return place.run("bitsandbytes", "install.sh")


def libraries(place: Place) -> set[str]:
    return {path.name for path in (place.site / "bitsandbytes").glob("*.so")}


@pytest.mark.parametrize(
    ("torch", "kept"),
    [
        ("2.13.0+cpu", {"cpu"}),
        ("2.9.1+rocm6.4", {"cpu", "rocm64"}),
        ("2.10.0+rocm7.0", {"cpu", "rocm70"}),
    ],
)
def test_libraries_for_other_accelerators_are_removed(
    place: Place, torch: str, kept: set[str]
) -> None:
    ran = install(place, torch)
    assert ran.code == 0, ran.output
    assert libraries(place) == {f"libbitsandbytes_{name}.so" for name in kept}
    (info,) = place.site.glob("bitsandbytes-*.dist-info")
    recorded = PathDistribution(info).files or ()
    assert all(Path(str(file.locate())).exists() for file in recorded)
    for path in (place.site / "bitsandbytes").glob("*_rocm*.so"):
        assert any(code.runs_on("gfx90a") for code in codes(str(path)))


def test_a_rocm_that_the_wheel_has_no_library_for_stops_the_build(place: Place) -> None:
    ran = install(place, "2.8.0+rocm6.3")
    assert ran.code == 1
    assert "has no library for rocm63" in ran.output
    assert "PyTorch is 2.8.0+rocm6.3, and it has: cpu, cuda118" in ran.output
