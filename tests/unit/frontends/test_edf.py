"""The copy of an image's file system is that image's, and replaces no file of others."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from lumicontainer.errors import InputError
from lumicontainer.frontends.edf import edf, write_squashfs
from lumicontainer.host.binds import Needs
from lumicontainer.image import sif

from ..verify.test_inspect import HELLO, made

pytestmark = pytest.mark.slow


def image_of(folder: Path, summary: str) -> Path:
    folder.mkdir()
    return made(folder, json.dumps({**HELLO, "summary": summary}))


def copied(image: Path) -> bytes:
    write_squashfs(image)
    part = sif.partitions(image)[0]
    whole = image.read_bytes()[part.offset : part.end]
    content = image.with_name("x.sif.squashfs").read_bytes()
    assert content.startswith(whole)
    return content


def test_another_image_in_its_place_is_copied_whatever_its_time(tmp_path: Path) -> None:
    image, other = image_of(tmp_path / "one", "one"), image_of(tmp_path / "other", "other")
    first = copied(image)
    copy = image.with_name("x.sif.squashfs")
    written = copy.stat().st_mtime_ns
    image.touch()
    assert copied(image) == first
    assert copy.stat().st_mtime_ns == written
    other.replace(image)
    assert copied(image) != first
    subprocess.run(["unsquashfs", "-s", copy], check=True, capture_output=True)


@pytest.mark.parametrize("content", [b"", b"hsqs" * 4096])
def test_a_file_of_another_program_is_not_replaced_by_a_copy(
    tmp_path: Path, content: bytes
) -> None:
    image = image_of(tmp_path / "one", "one")
    copy = image.with_name("x.sif.squashfs")
    copy.write_bytes(content)
    with pytest.raises(InputError, match="a file of another program is in the way"):
        write_squashfs(image)
    assert copy.read_bytes() == content


def test_a_pipe_in_the_place_of_the_copy_is_not_waited_for(tmp_path: Path) -> None:
    image = image_of(tmp_path / "one", "one")
    os.mkfifo(image.with_name("x.sif.squashfs"))
    with pytest.raises(InputError, match="a file of another program is in the way"):
        write_squashfs(image)


def test_a_copy_of_another_size_is_written_again(tmp_path: Path) -> None:
    image = image_of(tmp_path / "one", "one")
    first, copy = copied(image), image.with_name("x.sif.squashfs")
    copy.write_bytes(b"x" * 100 + first[-4096:])
    assert copied(image) == first


TABLE = 'A = "x"\n[com.lumi.hooks]\ncommand'
"""A name of a variable that would begin a table of its own."""


@pytest.mark.parametrize(
    "layer",
    [
        {"environment": {TABLE: "x"}},
        {"environment": {"A B": "x"}},
        {"environment": {"A": "x\0y"}},
        {"environment": {"A": "x"}, "path": ["/opt/a:/etc"]},
        {"environment": {"A": "x"}, "path": ["/opt/a\n[env]"]},
    ],
)
def test_an_image_cannot_write_lines_of_a_definition(
    tmp_path: Path, layer: dict[str, object]
) -> None:
    row = {"parameters": {}, "origins": {}, "version": "1", **layer}
    image = made(tmp_path, json.dumps({**HELLO, "layers": {"hook": row}}))
    with pytest.raises(InputError, match="a record of the image is damaged"):
        edf(image, Needs(), tmp_path / "x.toml")
