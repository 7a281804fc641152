"""The layers of an image come from a real registry to the disk, each with its digest."""

import os
import shutil
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from lumicontainer.errors import DownloadError, InputError
from lumicontainer.host.registry import pinned_image, save_image
from lumicontainer.sandbox.tree.foreign.tree import Tree
from lumicontainer.sandbox.tree.foreign.unpack_image import unpack

from .conftest import check_output
from .registries import registry
from .test_without_internet import push

MIB = 1 << 20
SIZE = 32 * MIB


@pytest.fixture
def image(tmp_path: Path) -> Iterator[str]:
    """Push an image whose layer cannot be compressed; give its name."""
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "file").write_bytes(os.urandom(SIZE))
    check_output("tar", "-cf", tmp_path / "base.tar", "-C", tree, ".")
    with registry(tmp_path) as here:
        push(tmp_path / "base.tar", f"{here}/large:1")
        yield f"{here}/large:1"


def saved(image: str, folder: Path) -> Path:
    folder.mkdir()
    (layer,) = save_image(image, folder, plain=True, trust=None).layers
    return layer


def test_a_layer_may_be_larger_than_the_memory(image: str, tmp_path: Path) -> None:
    tracemalloc.start()
    try:
        layer = saved(image, tmp_path / "layers")
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert layer.stat().st_size > SIZE
    assert most < SIZE / 4


def test_a_layer_that_has_changed_in_the_registry_is_refused(image: str, tmp_path: Path) -> None:
    blobs = (tmp_path / "images").rglob("blobs/**/data")
    largest = max(blobs, key=lambda each: each.stat().st_size)
    with largest.open("r+b") as file:
        file.seek(MIB)
        file.write(b"changed")
    with pytest.raises(DownloadError, match="a download does not have its digest"):
        saved(image, tmp_path / "layers")


def push_text(folder: Path, image: str, text: str) -> None:
    (folder / "file").write_text(text)
    check_output("tar", "-cf", folder / "base.tar", "-C", folder, "file")
    push(folder / "base.tar", image)


def test_a_tag_that_moved_under_a_lock_is_not_followed(tmp_path: Path) -> None:
    with registry(tmp_path) as here:
        mirrors = {"docker://docker.io/": f"http://{here}/"}
        push_text(tmp_path, f"{here}/library/moving:1", "first")
        pin = pinned_image("docker.io/library/moving:1", mirrors, None)
        push_text(tmp_path, f"{here}/library/moving:1", "second")
        assert pinned_image("docker.io/library/moving:1", mirrors, None) != pin
        locked = pin.replace("docker.io", here)
        layer = saved(locked, tmp_path / "layers")
        assert check_output("tar", "-xOf", layer, "file") == "first"
        digest = pin.rpartition(":")[2]
        for folder in (tmp_path / "images").rglob(f"revisions/sha256/{digest}"):
            shutil.rmtree(folder)
        with pytest.raises(DownloadError, match=f"(?s)moving.*{digest}"):
            saved(locked, tmp_path / "later")


def test_a_layer_that_is_compressed_with_zstd_is_unpacked(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("content")
    layer, tree = tmp_path / "layer.tar.zst", tmp_path / "tree"
    check_output("tar", "--zstd", "-cf", layer, "-C", tmp_path, "file")
    tree.mkdir()
    unpack(Tree(tree), layer)
    assert (tree / "file").read_text() == "content"
    layer.write_bytes(layer.read_bytes()[:-20])
    with pytest.raises(InputError, match=r"cannot be decompressed|ends early"):
        unpack(Tree(tree), layer)
