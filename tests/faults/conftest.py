"""Fixtures of the deliberate faults: the first recipe's image, its files, and other images'
files.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ..integration.conftest import (
    files_of,
    home,
    ordinary_user,
    program,
    tensorflow,
    tmp_path,
    wheel,
)
from ..integration.conftest import image as sif
from . import gpu
from .breaking import Broken
from .real import debian_library, wheel_files

__all__ = [
    "cupy",
    "home",
    "image",
    "librccl",
    "ordinary_user",
    "program",
    "sif",
    "tensorflow",
    "tmp_path",
    "wheel",
]


@pytest.fixture(scope="session")
def image(sif: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return a folder with the image's files, from which the engine starts as from the image."""
    yield from files_of(sif, tmp_path_factory)


@pytest.fixture
def broken(tmp_path: Path) -> Broken:
    """Return an image's changes: none as yet."""
    return Broken(tmp_path / "over")


@pytest.fixture
def lumi(broken: Broken) -> Broken:
    """Return an image with the record and the checks of one for LUMI-G that has every layer."""
    return broken.records(gpu.records())


@pytest.fixture(scope="session")
def librccl() -> Path:
    """Return Debian's RCCL, whose code is for ten kinds of GPU, gfx90a among them."""
    return debian_library("librccl1", "librccl.so.1.0")


@pytest.fixture(scope="session")
def cupy() -> Path:
    """Return an extension of the wheel cupy-rocm-7-0, whose code is for nine kinds of GPU."""
    return wheel_files("cupy-rocm-7-0") / "cupy/random"
