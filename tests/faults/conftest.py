"""What the deliberate faults share: the image of the first recipe, and files from outside."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..integration.conftest import image
from .breaking import Broken
from .real import debian_library, wheel_files

__all__ = ["cupy", "image", "librccl"]


@pytest.fixture
def broken(tmp_path: Path) -> Broken:
    """Return an image's changes: none as yet."""
    return Broken(tmp_path / "over")


@pytest.fixture(scope="session")
def librccl() -> Path:
    """Return Debian's RCCL, whose code is for ten kinds of GPU, gfx90a among them."""
    return debian_library("librccl1", "librccl.so.1.0")


@pytest.fixture(scope="session")
def cupy() -> Path:
    """Return an extension of the wheel cupy-rocm-7-0, whose code is for nine kinds of GPU."""
    return wheel_files("cupy-rocm-7-0") / "cupy/random"
