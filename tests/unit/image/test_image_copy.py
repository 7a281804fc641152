"""An image is copied in its own thread, and gets a layer that comes later."""

import os
import threading
from pathlib import Path

import pytest

from lumicontainer.errors import InputError
from lumicontainer.image import digests, sif, squashfs
from lumicontainer.image.assembly.assemble import Source
from lumicontainer.image.digests import CHANGED, WHOLE
from lumicontainer.image.image_copy import ImageCopy
from lumicontainer.system.terminal.progress import Progress

from .assembly.layers import Tree, write_layer
from .test_digests import flip

PLAN = sif.layout("", {"data": {}})


@pytest.fixture
def layers(tmp_path: Path) -> list[Path]:
    below = Tree({b"list": os.urandom(5000), b"kept": os.urandom(9000)})
    above = Tree({b"list": b"new", b"more": b"x"})
    return [write_layer(tmp_path / "0", below), write_layer(tmp_path / "1", above)]


@pytest.fixture
def image(tmp_path: Path, layers: list[Path]) -> Path:
    return write_image(tmp_path / "image.sif", layers[:1])


def write_image(path: Path, layers: list[Path]) -> Path:
    path.touch()
    squashfs.write_image([Source(each) for each in layers], path, PLAN)
    return path


def make_draft(image: Path) -> Path:
    draft = image.with_name("draft")
    draft.touch()
    return draft


def test_the_image_is_the_one_of_both_layers(image: Path, layers: list[Path]) -> None:
    draft = make_draft(image)
    with ImageCopy(image, draft, Progress("json")) as copy:
        copy.begin(PLAN, ["/list"])
        assert b"kept" in copy.root.children
        copy.finish(layers[1])
    whole = write_image(image.with_name("whole.sif"), layers)
    assert draft.read_bytes() == whole.read_bytes()


def test_a_copy_that_is_not_finished_ends(image: Path) -> None:
    before = threading.active_count()
    with ImageCopy(image, make_draft(image), Progress("json")) as copy:
        copy.begin(PLAN, [])
    assert threading.active_count() == before


def test_a_damaged_image_is_refused(image: Path, layers: list[Path]) -> None:
    place = sif.root(image)
    with image.open("r+b") as file:
        file.seek(place.offset + 40)
        file.write(b"\xff" * 8)
    with ImageCopy(image, make_draft(image), Progress("json")) as copy:
        copy.begin(PLAN, [])
        with pytest.raises(InputError, match="cannot read the file system"):
            copy.finish(layers[1])


def copy_large_image(folder: Path, *, damaged: bool) -> Path:
    """Copy an image whose file system is hashed in parts, which may be damaged before."""
    files = {b"%d" % number: os.urandom(20_000) for number in range(9)}
    image = write_image(folder / "large.sif", [write_layer(folder / "large", Tree(files))])
    if damaged:
        flip(image, sif.root(image).offset + 100_000)
    layer, draft = write_layer(folder / "new", Tree({b"4": b"new"})), make_draft(image)
    with ImageCopy(image, draft, Progress("json")) as copy:
        copy.begin(PLAN, ["/4"])
        copy.finish(layer)
    return draft


@pytest.fixture
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digests, "_SLICE", 8192)


@pytest.mark.usefixtures("_small_parts")
def test_parts_that_are_copied_whole_keep_their_digests(tmp_path: Path) -> None:
    copied = copy_large_image(tmp_path, damaged=False)
    result = digests.check(copied)
    assert result.state == WHOLE, result.problems
    of_image = {part.sha256 for part in digests.check(tmp_path / "large.sif").parts}
    kept = [part for part in result.parts if part.sha256 in of_image]
    assert sum(part.size for part in kept) > 120_000


@pytest.mark.usefixtures("_small_parts")
def test_the_copy_of_a_damaged_image_is_damaged(tmp_path: Path) -> None:
    assert digests.check(copy_large_image(tmp_path, damaged=True)).state == CHANGED
