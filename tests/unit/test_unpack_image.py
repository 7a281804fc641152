"""The layers of an image are unpacked over each other, and never outside the tree."""

import io
import tarfile
from pathlib import Path

import pytest

from lumicontainer.build.runtimes.unpack_image import Members, settle, unpack, write_environment
from lumicontainer.errors import InputError


def layer(folder: Path, *members: tarfile.TarInfo) -> Path:
    """Write a layer in which each file has its own name as content."""
    path = folder / "layer.tar"
    with tarfile.open(path, "w") as archive:
        for each in members:
            each.size = len(each.name) if each.isfile() else 0
            archive.addfile(each, io.BytesIO(each.name.encode()))
    return path


def member(name: str, kind: bytes = tarfile.REGTYPE, **fields: object) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.mode = kind, 0o644
    for field, value in fields.items():
        setattr(info, field, value)
    return info


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "tree").mkdir()
    return tmp_path / "tree"


def test_a_layer_changes_and_removes_what_lies_below(tree: Path) -> None:
    found: Members = {}
    folder = member("etc", tarfile.DIRTYPE, mode=0o555)
    names = ("etc/old", "etc/kept", "all/one", "all/two")
    unpack(layer(tree.parent, folder, *map(member, names)), tree, found)
    above = ("etc/.wh.old", "all/.wh..wh..opq", "all/new")
    own = member("etc/shadow", mode=0o4640, uid=7, gid=42)
    unpack(layer(tree.parent, *map(member, above), own), tree, found)
    record = list(settle(tree, found))
    there = {str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_file()}
    assert there == {"etc/kept", "etc/shadow", "all/new"}
    shadow = (tree / "etc/shadow").stat()
    assert record == [f"{shadow.st_ino} 7 42\n"]
    assert shadow.st_mode & 0o7777 == 0o4640
    assert (tree / "etc").stat().st_mode & 0o7777 == 0o555


@pytest.mark.parametrize(
    "members",
    [
        [member("../outside")],
        [member("link", tarfile.SYMTYPE, linkname=".."), member("link/outside")],
        [member("link", tarfile.SYMTYPE, linkname=".."), member("link/.wh.precious")],
        [member("hard", tarfile.LNKTYPE, linkname="../precious")],
    ],
    ids=["dots", "link", "removal", "hard link"],
)
def test_nothing_outside_the_tree_is_touched(tree: Path, members: list[tarfile.TarInfo]) -> None:
    (tree.parent / "precious").write_text("mine")
    with pytest.raises(InputError, match="leads out of its tree"):
        unpack(layer(tree.parent, *members), tree, {})
    assert (tree.parent / "precious").read_text() == "mine"
    assert not (tree.parent / "outside").exists()


def test_variables_of_an_image_are_values_and_no_code(tree: Path) -> None:
    write_environment(tree, ["PATH=/a b:/c", "X=$(touch /x)'\"", "no-name=1"])
    text = (tree / ".singularity.d/env/10-docker2singularity.sh").read_text()
    assert "export PATH='/a b:/c'\n" in text
    assert "export X='$(touch /x)'\"'\"'\"'\n" in text
    assert "no-name" not in text
