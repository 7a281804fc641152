"""The layers of an image are unpacked over each other, and never outside the tree."""

import errno
import gzip
import io
import os
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lumicontainer.errors import HostError, InputError
from lumicontainer.image import variables
from lumicontainer.sandbox.tree.foreign.settle import settle
from lumicontainer.sandbox.tree.foreign.tree import Tree
from lumicontainer.sandbox.tree.foreign.unpack_image import unpack


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


@pytest.fixture
def image(tree: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    """Return the tree of an ordinary user, who cannot give files away."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    return Tree(tree)


def names(tree: Path) -> set[str]:
    """Return the files of a tree but those that every image gets."""
    paths = {str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_file()}
    return {name for name in paths if name not in OURS}


HOSTS = "127.0.0.1 localhost\n::1 localhost\n"
OURS = ("etc/hosts", "etc/hostname", "etc/resolv.conf", ".singularity.d/env/99-base.sh")
OURS += (".singularity.d/base-modes.txt",)


def test_a_layer_changes_and_removes_what_lies_below(tree: Path, image: Tree) -> None:
    etc = member("etc", tarfile.DIRTYPE, mode=0o555)
    below = ("etc/old", "etc/kept", "all/one", "all/two")
    unpack(image, layer(tree.parent, etc, *map(member, below)))
    above = ("etc/.wh.old", "all/.wh..wh..opq", "all/new")
    own = member("etc/shadow", mode=0o4640, uid=7, gid=42)
    unpack(image, layer(tree.parent, *map(member, above), own))
    record = settle(image)
    assert names(tree) == {"etc/kept", "etc/shadow", "all/new"}
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
def test_a_layer_removes_none_of_its_own_files(
    tree: Path, image: Tree, below: list[str], names: list[str], left: set[str]
) -> None:
    unpack(image, layer(tree.parent, *map(member, below)))
    own = (folder(name) if name.endswith("/") else member(name) for name in names)
    unpack(image, layer(tree.parent, *own))
    assert {str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_file()} == left


def test_a_host_without_zstd_is_named_for_such_a_layer(
    tree: Path, image: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tree.parent / "layer.tar.zst"
    path.write_bytes(bytes.fromhex("28b52ffd"))
    monkeypatch.setenv("PATH", str(tree))
    with pytest.raises(HostError, match=r"zstd not found\n.*hint: install the package zstd"):
        unpack(image, path)


def link(name: str, target: str) -> tarfile.TarInfo:
    return member(name, tarfile.SYMTYPE, linkname=target)


def hard(name: str, target: str) -> tarfile.TarInfo:
    return member(name, tarfile.LNKTYPE, linkname=target)


def folder(name: str) -> tarfile.TarInfo:
    return member(name, tarfile.DIRTYPE, mode=0o777)


def test_a_path_through_a_loop_of_links_is_refused(tree: Path, image: Tree) -> None:
    with pytest.raises(InputError, match="cannot be followed"):
        unpack(image, layer(tree.parent, link("a", "b"), link("b", "a"), member("a/file")))


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
    tree: Path, image: Tree, ours: Path, members: list[tarfile.TarInfo]
) -> None:
    with pytest.raises(InputError, match="it leads out of the image's tree"):
        unpack(image, layer(tree.parent, *members))


@pytest.mark.parametrize("name", ["a/.wh.key", "a/.wh..wh..opq"])
def test_a_removal_that_leads_out_of_the_tree_is_refused(
    tree: Path, image: Tree, ours: Path, name: str
) -> None:
    unpack(image, layer(tree.parent, link("a", "../ours")))
    with pytest.raises(InputError, match="it leads out of the image's tree"):
        unpack(image, layer(tree.parent, member(name)))


def test_an_absolute_path_is_one_of_the_tree(tree: Path, image: Tree, ours: Path) -> None:
    key = f"{ours}/key"
    unpack(image, layer(tree.parent, member(key), hard("//same", key), folder(f"{ours}/ssh")))
    assert (tree / key[1:]).read_text() == key
    assert (tree / "same").samefile(tree / key[1:])
    assert (tree / key[1:]).with_name("ssh").is_dir()


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE])
def test_a_device_is_not_made(tree: Path, image: Tree, ours: Path, kind: bytes) -> None:
    unpack(image, layer(tree.parent, link("a", "../ours"), member("a/key", kind)))
    unpack(image, layer(tree.parent, member("null", kind)))
    assert [each.name for each in tree.iterdir()] == ["a"]


def test_a_hard_link_to_a_link_is_the_link(tree: Path, image: Tree, ours: Path) -> None:
    unpack(image, layer(tree.parent, link("a", "../ours/key"), hard("b", "a")))
    assert settle(image) == []
    assert (tree / "b").is_symlink()


@pytest.mark.parametrize("removal", [[], [member(".wh.a")], [member(".wh..wh..opq")]])
def test_a_folder_that_a_link_replaces_gives_its_mode_to_nothing(
    tree: Path, image: Tree, ours: Path, removal: list[tarfile.TarInfo]
) -> None:
    unpack(image, layer(tree.parent, folder("a"), folder("a/ssh"), member("a/key", uid=7)))
    unpack(image, layer(tree.parent, *removal, link("a", "../ours")))
    assert settle(image) == []


def test_modes_that_the_makers_of_an_image_chose_are_listed(tree: Path, image: Tree) -> None:
    closed = member("opt/closed", tarfile.DIRTYPE, mode=0o750)
    unpack(image, layer(tree.parent, closed, member("opt/plain"), member("opt/key", mode=0o600)))
    settle(image)
    listed = (tree / ".singularity.d/base-modes.txt").read_text()
    assert listed.split() == ["/opt/closed", "/opt/key", "/root", "/tmp", "/var/tmp"]


def test_a_removed_file_gives_its_mode_to_no_folder(tree: Path, image: Tree) -> None:
    unpack(image, layer(tree.parent, member("a/b", mode=0)))
    unpack(image, layer(tree.parent, member(".wh.a"), member("a/b/c")))
    assert settle(image) == []
    assert (tree / "a/b").stat().st_mode & 0o777 == 0o755


def test_a_path_through_a_link_in_the_tree_is_where_the_link_leads(tree: Path, image: Tree) -> None:
    unpack(image, layer(tree.parent, folder("usr"), link("bin", "usr"), member("bin/a")))
    unpack(image, layer(tree.parent, member("usr/a", mode=0o755)))
    assert settle(image) == []
    assert (tree / "usr/a").stat().st_mode & 0o777 == 0o755


def test_the_tree_itself_has_the_mode_of_the_image(tree: Path, image: Tree) -> None:
    unpack(image, layer(tree.parent, member("./", tarfile.DIRTYPE, mode=0o711)))
    assert settle(image) == []
    assert tree.stat().st_mode & 0o777 == 0o711


def test_the_record_has_no_owner_of_a_removed_file(tree: Path, image: Tree) -> None:
    unpack(image, layer(tree.parent, member("a", uid=7), member("b/c", uid=7)))
    unpack(image, layer(tree.parent, member(".wh.a"), member("b/.wh.c"), member("d"), member("e")))
    assert settle(image) == []


def test_variables_are_written_through_no_link(tree: Path, image: Tree, ours: Path) -> None:
    unpack(image, layer(tree.parent, link(variables.PLACE, str(ours / "key"))))
    settle(image, ["X=1"])
    assert (tree / variables.PLACE).read_text() == variables.script(["X=1"])
    assert (tree / variables.PLACE).stat().st_mode & 0o777 == 0o755


REAL = ("etc", ".singularity.d", ".singularity.d/env", ".singularity.d/libs")


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.REGTYPE], ids=["link", "file"])
@pytest.mark.parametrize("name", REAL)
def test_an_engine_finds_folders_where_it_writes(
    tree: Path, image: Tree, ours: Path, name: str, kind: bytes
) -> None:
    """Apptainer 1.4.5 writes to the host's files where an image has links in their place."""
    unpack(image, layer(tree.parent, member(name, kind, linkname=str(ours))))
    with pytest.raises(InputError, match=f"where: /{name}\n.*it is not a folder"):
        settle(image, ["X=1"])


@pytest.mark.parametrize("name", ["dev", "proc", "sys", "tmp", "var/tmp"])
def test_an_engine_mounts_on_folders_of_the_tree(
    tree: Path, image: Tree, ours: Path, name: str
) -> None:
    unpack(image, layer(tree.parent, link(name, str(ours))))
    settle(image)
    assert list((tree / name).iterdir()) == []
    mode = 0o1777 if name.endswith("tmp") else 0o755
    assert (tree / name).lstat().st_mode == stat.S_IFDIR | mode


def test_files_that_engines_mount_are_empty_and_none_of_the_hosts(
    tree: Path, image: Tree, ours: Path
) -> None:
    places = ("etc/hosts", "etc/hostname", "etc/resolv.conf")
    links = (link(name, str(ours / "key")) for name in places)
    unpack(image, layer(tree.parent, *links, member("dev/null"), member(".dockerenv")))
    settle(image)
    assert [(tree / name).read_text() for name in places] == [HOSTS, "", ""]
    assert list((tree / "dev").iterdir()) == []
    assert not (tree / ".dockerenv").exists()


def test_the_own_hosts_of_an_image_stay(tree: Path, image: Tree) -> None:
    unpack(image, layer(tree.parent, member("etc/hosts")))
    settle(image)
    assert (tree / "etc/hosts").read_text() == "etc/hosts"


def test_root_gives_files_to_their_owners(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owners = []

    def chown(path: object, uid: int, gid: int, **_: object) -> None:
        owners.append((uid, gid))
        if uid == 99_999:
            raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "chown", chown)
    members = (member("a", uid=7, gid=8), link("b", "a"), folder("c"))
    unpack(Tree(tree), layer(tree.parent, *members))
    assert owners == [(7, 8), (0, 0), (0, 0)]
    with pytest.raises(InputError, match="its owner 99999:0 is not among the subordinate ids"):
        unpack(Tree(tree), layer(tree.parent, member("a", uid=99_999)))


@pytest.mark.parametrize("mark", ["a/.wh..wh..opq", "a/.wh.b"])
def test_a_folder_is_emptied_once_however_often_a_layer_says_so(
    tree: Path, image: Tree, monkeypatch: pytest.MonkeyPatch, mark: str
) -> None:
    count, looks, look = 100, 0, os.lstat

    def lstat(*words: Any, **named: Any) -> os.stat_result:
        nonlocal looks
        looks += 1
        return look(*words, **named)

    monkeypatch.setattr(os, "lstat", lstat)
    own = [member(f"a/b/{number}") for number in range(count)]
    unpack(image, layer(tree.parent, member("a/b/below")))
    unpack(image, layer(tree.parent, *own, *[member(mark)] * count))
    assert looks < 10 * count
    assert len(names(tree)) == count


def test_paths_that_lead_through_links_again_and_again_are_refused(
    tree: Path, image: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small layer could keep a build busy for hours."""
    monkeypatch.setattr("lumicontainer.sandbox.tree.foreign.tree._FREE_STEPS", 1000)
    deep = "/".join(["d"] * 90)
    links = [
        link("l0", deep),
        *(link(f"l{n}", f"{deep}/{'../' * 90}l{n - 1}") for n in range(1, 9)),
    ]
    ends = [member("l8/y"), member("q/z")] * 10
    with pytest.raises(InputError, match="through too many links"):
        unpack(image, layer(tree.parent, member(f"{deep}/x"), *links, *ends))


def test_layers_share_what_they_may_become(
    tree: Path, image: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An image may name a layer a thousand times."""
    monkeypatch.setattr("lumicontainer.sandbox.tree.foreign.layer._ALWAYS", 1_000_000)
    packed, big = tree.parent / "layer.tar.gz", member("a")
    big.size = 600_064  # Whole blocks.
    packed.write_bytes(gzip.compress(big.tobuf() + bytes(big.size)))
    unpack(image, packed)
    with pytest.raises(InputError, match="more than 64 times larger"):
        unpack(image, *[packed] * 1000)


def test_a_layer_that_is_named_often_counts_once(
    tree: Path, image: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lumicontainer.sandbox.tree.foreign.layer._ALWAYS", 0)
    plain, big = tree.parent / "layer.tar", member("a")
    big.size = 512 << 10
    plain.write_bytes(big.tobuf() + bytes(big.size))
    unpack(image, *[plain] * 9)
    with pytest.raises(InputError, match="more than 64 times larger"):
        unpack(image, *[plain] * 65)
