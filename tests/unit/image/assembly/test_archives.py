"""The archives of an image, one after the other, are its tree, and each depends on its layer."""

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lumicontainer.errors import InputError
from lumicontainer.image.assembly import archives, layout
from lumicontainer.image.assembly.archives import plan_archives, read_archive
from lumicontainer.image.assembly.assemble import Assembly, Source
from lumicontainer.image.assembly.reader import read_squashfs
from lumicontainer.image.assembly.tree import Node
from lumicontainer.system import budget

from .layers import BLOCK_SIZE, File, Special, Tree, Zeros, read_tree, write_layer

TWICE = File(b"x" * 9000, 0o4755)
EMPTY = File(b"")
BASE = Tree(
    {
        b"etc": Tree(
            {b"lower": b"old", b"gone": b"x", b"long" * 60: b"y", b"\xff.new\nline": b"z"}
        ),
        b"usr": Tree({b"one": TWICE, b"two": TWICE, b"zeros": Zeros(3 * BLOCK_SIZE)}, 0o1777),
        b"none": EMPTY,
        b"none too": EMPTY,
        b"link": "etc/lower",
        b"disk": Special(layout.BLOCK, 0x00108101),
        b"pipe": Special(layout.PIPE),
    }
)
TOP = Tree({b"etc": Tree({b"lower": b"new", b"gone": None}), b"opt": Tree({b"tool": b"t" * 5000})})
KINDS = {
    tarfile.REGTYPE: layout.FILE,
    tarfile.DIRTYPE: layout.FOLDER,
    tarfile.SYMTYPE: layout.LINK,
    tarfile.BLKTYPE: layout.BLOCK,
    tarfile.FIFOTYPE: layout.PIPE,
}


def assembled(folder: Path, *trees: Tree) -> tuple[Path, list[int]]:
    """Return a squashfs of layers, and the ends of their data."""
    target, bounds = folder / "image", list[int]()
    layers = [
        Source(write_layer(folder / f"{number}", tree)).read(number)
        for number, tree in enumerate(trees)
    ]
    with target.open("w+b") as file:
        Assembly(file, 0, 0, bound=bounds.append).finish(layers)
    return target, bounds


def archived(image: Path, bounds: list[int]) -> list[bytes]:
    squashfs = read_squashfs(image)
    return [b"".join(read_archive(squashfs, each)) for each in plan_archives(squashfs, bounds)]


def members(archive: bytes) -> Iterator[tuple[bytes, tarfile.TarInfo, bytes]]:
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:") as tar:
        for each in tar:
            content = tar.extractfile(each) if each.isreg() else None
            yield (
                each.name.encode(errors="surrogateescape"),
                each,
                content.read() if content else b"",
            )


def names(archive: bytes) -> list[bytes]:
    return [name for name, *_ in members(archive)]


def read_archives(every: list[bytes]) -> dict[bytes, object]:
    """Return what ``read_tree`` says of the tree that archives unpack to."""
    entries: dict[bytes, object] = {}
    links: dict[bytes, list[bytes]] = {}
    for archive in every:
        for name, info, data in members(archive):
            target, content = info.linkname.encode(errors="surrogateescape"), data
            if info.islnk():
                links.setdefault(b"/" + target, [b"/" + target]).append(b"/" + name)
                entries[b"/" + name] = entries[b"/" + target]
                continue
            if info.issym():
                content = target
            device = info.devmajor << 8 | info.devminor & 0xFF | (info.devminor & ~0xFF) << 12
            entries[b"/" + name] = (KINDS[info.type], info.mode, device, content)
    return entries | {b"links": sorted(map(sorted, links.values()))}


def test_archives_unpacked_one_after_the_other_are_the_tree(tmp_path: Path) -> None:
    image, bounds = assembled(tmp_path, BASE, TOP)
    every = archived(image, bounds)
    assert len(every) == 3
    assert read_archives(every) == read_tree(image)


def test_an_archive_has_the_files_of_its_layer_with_the_folders_above(tmp_path: Path) -> None:
    image, bounds = assembled(tmp_path, BASE, TOP)
    base, top, rest = map(names, archived(image, bounds))
    assert base[0] == b"etc"
    assert {b"usr", b"usr/one", b"usr/two"} < set(base)
    assert top == [b"etc", b"etc/lower", b"opt", b"opt/tool"]
    assert {b"none", b"none too", b"link", b"disk", b"pipe", b"usr/zeros"} < set(rest)


def test_images_with_the_same_lower_layer_have_its_archive_in_common(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    other = Tree({b"etc": Tree({b"lower": b"newer", b"gone": None}), b"srv": "opt"})
    one = archived(*assembled(tmp_path / "one", BASE, TOP))
    two = archived(*assembled(tmp_path / "two", BASE, other))
    assert one[0] == two[0]
    assert one[1:] != two[1:]


def test_an_image_that_records_no_layers_has_one_archive_of_files(tmp_path: Path) -> None:
    image, _ = assembled(tmp_path, BASE, TOP)
    files, rest = map(names, archived(image, []))
    assert b"opt/tool" in files
    assert b"opt/tool" not in rest


def test_there_are_no_more_archives_than_docker_mounts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "MOST", 4)
    trees = [Tree({b"%d" % number: b"x" * 5000, b"link": "0"}) for number in range(9)]
    image, bounds = assembled(tmp_path, *trees)
    every = archived(image, bounds)
    assert 1 < len(every) <= 4
    assert read_archives(every) == read_tree(image)


def test_a_name_that_would_remove_a_file_is_refused(tmp_path: Path) -> None:
    image, bounds = assembled(tmp_path, Tree({b"etc": Tree({b".wh.passwd": b"x"})}))
    with pytest.raises(InputError, match="would remove another file there"):
        archived(image, bounds)


def test_a_device_that_would_remove_a_file_is_left_out(tmp_path: Path) -> None:
    write_layer(tmp_path / "image", Tree({b"etc": Tree({b"passwd": None, b"group": b"x"})}))
    assert names(b"".join(archived(tmp_path / "image", []))) == [b"etc", b"etc/group"]


def test_a_small_image_does_not_become_an_endless_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "UNPACKED", 1 << 20)
    image, bounds = assembled(tmp_path, Tree({b"zeros": Zeros(2 << 20)}))
    with pytest.raises(InputError, match="its files have 2097152 bytes, expected at most 1048576"):
        archived(image, bounds)


def test_folders_may_be_in_each_other_as_deep_as_linux_allows(tmp_path: Path) -> None:
    squashfs = read_squashfs(assembled(tmp_path, Tree({b"file": b"x"}))[0])
    node = squashfs.files[0]
    for _ in range(2000):
        node = Node(layout.FOLDER, 0o755, 0, 0, 0, {b"d": node})
    squashfs.root.children[b"d"] = node
    files, rest = plan_archives(squashfs, [])
    assert files[-1].path == b"file"
    assert len(files) == len(rest) + 2
