"""An image in which lumi-verify runs checks."""

from __future__ import annotations

from pathlib import Path

import pytest

from .verifying import Image


@pytest.fixture(params=["each alone", "from a server"])
def image(request: pytest.FixtureRequest, tmp_path: Path) -> Image:
    image = Image(tmp_path, ("json", "decimal"))
    if request.param == "each alone":
        image.edit("local.py", "not self.place.gpus", "False")
    return image


@pytest.fixture
def own(image: Image) -> Path:
    """Make a folder of the test's own."""
    folder = image.root / "own"
    folder.mkdir()
    return folder
