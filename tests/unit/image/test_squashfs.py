"""An image has a compression that every engine that meets it can read, and the user's mode."""

import os
import sys
from pathlib import Path

import pytest

from lumicontainer.building.pipeline import compression_of
from lumicontainer.core.model import Platform
from lumicontainer.errors import InputError, Place
from lumicontainer.image import sif, squashfs
from lumicontainer.image.assembly.assemble import Source
from lumicontainer.image.assembly.layout import MAGIC, Superblock
from lumicontainer.sandbox.runtimes.runtime import Runtime

from .assembly.layers import Tree, write_layer

HERE = Platform("here", "any machine", "cpu", Place("here.yaml", 1, 1))
LUMI = HERE._replace(compression="gzip")


class Apptainer(Runtime):
    """Stand for user namespaces with Apptainer."""

    name = "namespaces"


class SingularityCE(Runtime):
    """Stand for user namespaces with SingularityCE."""

    name = "namespaces"
    compression = "gzip"


@pytest.mark.parametrize(
    ("runtime", "platform", "compression"),
    [(Apptainer(), HERE, "zstd"), (Apptainer(), LUMI, "gzip"), (SingularityCE(), HERE, "gzip")],
    ids=["both read zstd", "the platform does not", "this host does not"],
)
def test_an_image_has_the_compression_that_both_engines_read(
    runtime: Runtime, platform: Platform, compression: str
) -> None:
    assert compression_of(runtime, platform) == compression


def test_an_image_has_the_users_mode_and_other_threads_keep_their_umask(tmp_path: Path) -> None:
    image, layer, seen = tmp_path / "x.sif", tmp_path / "layer", set()
    write_layer(layer, Tree({b"file": b"x"}))
    image.touch()
    before = os.umask(0o027)
    # It is called around each call of a function.
    sys.setprofile(
        lambda *_: seen.add(Path("/proc/self/status").read_text().split("Umask:")[1][:5])
    )
    try:
        squashfs.write_image([Source(layer)], image, sif.layout("", {"data": {}}))
    finally:
        sys.setprofile(None)
        os.umask(before)
    assert seen == {"\t0027"}
    assert image.stat().st_mode & 0o777 == 0o750


def write_image(path: Path, *, head: bytes) -> Path:
    """Write an image whose file system begins with ``head``."""
    plan = sif.layout("", {"data": {}})
    path.write_bytes(bytes(plan.offset) + head)
    sif.complete(path, plan, sif.hash_root(path, plan).finish(len(head)))
    return path


def superblock(compressor: int, block_size: int = 1 << 17) -> bytes:
    sizes = (block_size, 0, compressor, 17, 0, 0, 4, 0)
    return Superblock(MAGIC, 1, 0, *sizes, *[0] * 8).packed()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("compressor", "form"), [(1, "gzip"), (2, "gzip"), (4, "gzip"), (5, "gzip"), (6, "zstd")]
)
def test_a_file_beside_an_image_has_a_compression_that_its_engine_reads(
    tmp_path: Path, compressor: int, form: str
) -> None:
    image = write_image(tmp_path / "x.sif", head=superblock(compressor))
    assert squashfs.form_of(image) == (form, 1 << 17)
    tree = tmp_path / "tree"
    tree.mkdir()
    squashfs.pack_as_root(tree, tmp_path / "beside.sqsh", form)


@pytest.mark.parametrize(
    "head",
    [b"hsqs", bytes(96), superblock(1, 0), superblock(6, 4096)],
    ids=["cut short", "zeros", "no block size", "another block size"],
)
def test_a_damaged_superblock_is_refused(tmp_path: Path, head: bytes) -> None:
    image = write_image(tmp_path / "x.sif", head=head)
    with pytest.raises(InputError, match="cannot read the file system"):
        squashfs.form_of(image)
