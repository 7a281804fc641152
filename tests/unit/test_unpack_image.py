"""The layers of an image are unpacked over each other, and never outside the tree."""

import io
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lumicontainer.build.runtimes.unpack_image import Members, settle, unpack, write_environment
from lumicontainer.errors import HostError, InputError


def layer(place: Path, *members: tarfile.TarInfo) -> Path:
    """Write a layer in which each file has its own name as content."""
    path = place / "layer.tar"
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
    etc = member("etc", tarfile.DIRTYPE, mode=0o555)
    names = ("etc/old", "etc/kept", "all/one", "all/two")
    unpack(layer(tree.parent, etc, *map(member, names)), tree, found)
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
    ("below", "names", "left"),
    [
        ([], ["d/new", "d/.wh..wh..opq"], {"d/new"}),
        (["d/old"], ["d/new", "d/.wh..wh..opq"], {"d/new"}),
        (["d/old", "d/kept"], ["d/old", "d/.wh.old"], {"d/old", "d/kept"}),
        (["d"], ["d/", "d/new", "d/.wh.old", "d/.wh..wh..opq"], {"d/new"}),
        ([], ["e/.wh..wh..opq", "e/.wh.old"], set()),
    ],
)
def test_a_layer_removes_nothing_of_its_own(
    tree: Path, below: list[str], names: list[str], left: set[str]
) -> None:
    unpack(layer(tree.parent, *map(member, below)), tree, {})
    own = (folder(name) if name.endswith("/") else member(name) for name in names)
    unpack(layer(tree.parent, *own), tree, {})
    assert {str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_file()} == left


def test_a_host_without_zstd_is_named_for_such_a_layer(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tree.parent / "layer.tar.zst"
    path.write_bytes(bytes.fromhex("28b52ffd"))
    monkeypatch.setenv("PATH", str(tree))
    with pytest.raises(HostError, match=r"zstd not found\n.*hint: install the package zstd"):
        unpack(path, tree, {})


def link(name: str, target: str) -> tarfile.TarInfo:
    return member(name, tarfile.SYMTYPE, linkname=target)


def hard(name: str, target: str) -> tarfile.TarInfo:
    return member(name, tarfile.LNKTYPE, linkname=target)


def folder(name: str) -> tarfile.TarInfo:
    return member(name, tarfile.DIRTYPE, mode=0o777)


def test_a_path_through_a_loop_of_links_is_refused(tree: Path) -> None:
    with pytest.raises(InputError, match="cannot be followed"):
        unpack(layer(tree.parent, link("a", "b"), link("b", "a"), member("a/file")), tree, {})


@pytest.fixture
def ours(tree: Path) -> Iterator[Path]:
    """Give a folder outside the tree; at the end it must be as before."""
    ours = tree.parent / "ours"
    (ours / "ssh").mkdir(parents=True)
    (ours / "key").write_text("mine")
    before = {ours: 0o711, ours / "ssh": 0o700, ours / "key": 0o600}
    for path, mode in before.items():
        path.chmod(mode)
    yield ours
    assert (ours / "key").read_text() == "mine"
    assert {each: stat.S_IMODE(each.stat().st_mode) for each in (ours, *ours.iterdir())} == before
    assert (ours / "key").stat().st_nlink == 1


@pytest.mark.parametrize(
    "members",
    [
        [member("../ours/new")],
        [member("a/../../ours/key")],
        [folder("../ours/ssh")],
        [folder("a/../../ours/ssh")],
        [link("a", "../ours"), member("a/new")],
        [link("a", "../ours"), member("a/key")],
        [link("a", "../ours"), folder("a/ssh")],
        [link("a", "../ours"), link("a/key", "new")],
        [link("a", "../ours"), link("b", "a"), member("b/ssh/new")],
        [link("a", "..//ours"), member("./a//new")],
        [member(".wh...")],
        [member(".wh.")],
        [hard("a", "../ours/key")],
        [hard("../ours/new", "../ours/key")],
        [link("a", "../ours"), hard("b", "a/key")],
        [member("a"), link("b", "../ours"), hard("b/key", "a")],
        [link(".", "ours")],
    ],
    ids=lambda members: " ".join(each.name + "-" + each.linkname for each in members),
)
def test_a_path_that_leads_out_of_the_tree_is_refused(
    tree: Path, ours: Path, members: list[tarfile.TarInfo]
) -> None:
    with pytest.raises(InputError, match="leads out of its tree"):
        unpack(layer(tree.parent, *members), tree, {})


@pytest.mark.parametrize("name", ["a/.wh.key", "a/.wh..wh..opq"])
def test_a_removal_that_leads_out_of_the_tree_is_refused(tree: Path, ours: Path, name: str) -> None:
    unpack(layer(tree.parent, link("a", "../ours")), tree, {})
    with pytest.raises(InputError, match="leads out of its tree"):
        unpack(layer(tree.parent, member(name)), tree, {})


def test_an_absolute_path_is_one_of_the_tree(tree: Path, ours: Path) -> None:
    key = f"{ours}/key"
    unpack(layer(tree.parent, member(key), hard("//same", key), folder(f"{ours}/ssh")), tree, {})
    assert (tree / key[1:]).read_text() == key
    assert (tree / "same").samefile(tree / key[1:])
    assert (tree / key[1:]).with_name("ssh").is_dir()


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE])
def test_a_device_is_not_made(tree: Path, ours: Path, kind: bytes) -> None:
    unpack(layer(tree.parent, link("a", "../ours"), member("a/key", kind)), tree, {})
    unpack(layer(tree.parent, member("../ours/new", kind), member("null", kind)), tree, {})
    assert [each.name for each in tree.iterdir()] == ["a"]


def test_a_hard_link_to_a_link_is_the_link(tree: Path, ours: Path) -> None:
    found: Members = {}
    unpack(layer(tree.parent, link("a", "../ours/key"), hard("b", "a")), tree, found)
    assert list(settle(tree, found)) == []
    assert (tree / "b").is_symlink()


@pytest.mark.parametrize("removal", [[], [member(".wh.a")], [member(".wh..wh..opq")]])
def test_a_folder_that_a_link_replaces_gives_its_mode_to_nothing(
    tree: Path, ours: Path, removal: list[tarfile.TarInfo]
) -> None:
    found: Members = {}
    unpack(layer(tree.parent, folder("a"), folder("a/ssh"), member("a/key", uid=7)), tree, found)
    unpack(layer(tree.parent, *removal, link("a", "../ours")), tree, found)
    assert list(settle(tree, found)) == []


def test_a_removed_file_gives_its_mode_to_no_folder(tree: Path) -> None:
    found: Members = {}
    unpack(layer(tree.parent, member("a/b", mode=0)), tree, found)
    unpack(layer(tree.parent, member(".wh.a"), member("a/b/c")), tree, found)
    assert list(settle(tree, found)) == []
    assert (tree / "a/b").stat().st_mode & 0o777 == 0o755


def test_modes_are_set_through_no_link(tree: Path, ours: Path) -> None:
    (tree / "a").symlink_to(ours)
    assert list(settle(tree, {"a/ssh": folder("a/ssh"), "a/key": member("a/key", uid=7)})) == []


def test_a_path_through_a_link_in_the_tree_is_where_the_link_leads(tree: Path) -> None:
    found: Members = {}
    unpack(layer(tree.parent, folder("usr"), link("bin", "usr"), member("bin/a")), tree, found)
    unpack(layer(tree.parent, member("usr/a", mode=0o755)), tree, found)
    assert list(settle(tree, found)) == []
    assert (tree / "usr/a").stat().st_mode & 0o777 == 0o755


def test_the_tree_itself_has_the_mode_of_the_image(tree: Path) -> None:
    found: Members = {}
    unpack(layer(tree.parent, member("./", tarfile.DIRTYPE, mode=0o711)), tree, found)
    assert list(settle(tree, found)) == []
    assert tree.stat().st_mode & 0o777 == 0o711


def test_variables_are_written_through_no_link(tree: Path, ours: Path) -> None:
    file = ".singularity.d/env/10-docker2singularity.sh"
    unpack(layer(tree.parent, link(file, str(ours / "key"))), tree, {})
    write_environment(tree, ["X=1"])
    assert (tree / file).stat().st_mode & 0o777 == 0o755
    unpack(layer(tree.parent, link(".singularity.d/env", str(ours))), tree, {})
    with pytest.raises(InputError, match="leads out of its tree"):
        write_environment(tree, ["X=1"])
