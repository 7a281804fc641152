"""An image has a compression that every engine that meets it can read, and the user's mode."""

import os
import sys
from pathlib import Path

import pytest

from lumicontainer.build.pipeline import compression_of
from lumicontainer.build.runtimes.runtime import Runtime
from lumicontainer.core.model import Platform
from lumicontainer.errors import Place
from lumicontainer.image import sif, squashfs
from lumicontainer.image.assembly.assemble import Source

from .image.assembly.layers import Tree, write_layer

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
