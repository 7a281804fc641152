"""An image has a form that every engine that meets it can read, and all bytes of its layers."""

import os
import sys
from pathlib import Path

import pytest

from lumicontainer.build.pipeline import choose_pack, compression_of
from lumicontainer.build.runtimes.runtime import Runtime
from lumicontainer.core.model import Platform
from lumicontainer.errors import InputError, Place
from lumicontainer.image import sif, squashfs

HERE = Platform("here", "any machine", "cpu", Place("here.yaml", 1, 1))
LUMI = HERE._replace(engine="singularity")


class Stacking(Runtime):
    """Stand for user namespaces with an Apptainer whose host has fuse-overlayfs."""

    name = "namespaces"
    stacks = True


class Flat(Runtime):
    """Stand for user namespaces with SingularityCE."""

    name = "namespaces"
    compression = "gzip"


APPTAINER, SINGULARITY = Stacking(), Flat()


@pytest.mark.parametrize(
    ("engine", "platform", "form", "compression"),
    [
        (APPTAINER, HERE, "layered", "zstd"),
        (APPTAINER, LUMI, "flat", "gzip"),
        (SINGULARITY, HERE, "flat", "gzip"),
    ],
    ids=["layers", "the platform reads none", "this host reads none"],
)
def test_an_image_has_the_form_that_both_engines_read(
    engine: Runtime, platform: Platform, form: str, compression: str
) -> None:
    assert choose_pack(None, engine, platform) == form
    assert compression_of(engine, platform) == compression


def test_a_form_that_this_hosts_engine_would_show_in_part_is_refused() -> None:
    with pytest.raises(InputError, match=r"(?s)cannot read layered images.*use --pack flat"):
        choose_pack("layered", SINGULARITY, HERE)


@pytest.mark.parametrize("form", ["layered", "flat"])
def test_a_form_that_is_asked_for_is_taken_where_it_can_be_read(form: str) -> None:
    assert choose_pack(form, APPTAINER, HERE) == form


def copied(tmp_path: Path, size: int) -> bytes:
    """Copy a layer that should have ``size`` bytes, and has 100,000, into an image."""
    layer, image = tmp_path / "layer.squashfs", tmp_path / "image.sif"
    layer.write_bytes(bytes(range(250)) * 400)
    image.write_bytes(bytes(4096))
    squashfs.copy_layers([squashfs.Packed(layer, size)], image, 4096)
    return image.read_bytes()[4096:]


def test_a_layer_that_was_cut_short_makes_no_image(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="ends 1 bytes early"):
        copied(tmp_path, 100_001)


def test_a_layer_is_copied_where_the_system_call_copies_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "copy_file_range", lambda *_: 0)
    assert copied(tmp_path, 100_000) == bytes(range(250)) * 400


def test_an_image_has_the_users_mode_and_other_threads_keep_their_umask(tmp_path: Path) -> None:
    image, seen = tmp_path / "x.sif", set()
    image.touch()
    before = os.umask(0o027)
    # It is called around each call of a function.
    sys.setprofile(
        lambda *_: seen.add(Path("/proc/self/status").read_text().split("Umask:")[1][:5])
    )
    try:
        squashfs.complete(image, sif.layout("", {"data": {}}), [])
    finally:
        sys.setprofile(None)
        os.umask(before)
    assert seen == {"\t0027"}
    assert image.stat().st_mode & 0o777 == 0o750
