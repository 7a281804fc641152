"""Images of others: odd archives are refused in words, or unpacked right."""

from __future__ import annotations

import gzip
import io
import os
import stat
import tarfile
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lumicontainer.errors import InputError
from lumicontainer.sandbox.tree.foreign import layer as layers
from lumicontainer.sandbox.tree.foreign import tree as trees
from lumicontainer.sandbox.tree.foreign.settle import settle
from lumicontainer.sandbox.tree.foreign.tree import Tree
from lumicontainer.sandbox.tree.foreign.unpack_image import unpack


def member(name: str, kind: bytes = tarfile.REGTYPE, body: bytes = b"", **fields: Any) -> bytes:
    """Return a header and its data; ``raw_…`` are bytes at places of the header."""
    info = tarfile.TarInfo("x")
    info.type, info.size = kind, fields.pop("size", len(body))
    info.linkname = fields.pop("to", "")
    head = bytearray(info.tobuf(tarfile.USTAR_FORMAT))
    places = {"mode": 100, "uid": 108, "gid": 116, "length": 124, "mtime": 136}
    raw = os.fsencode(name)[:100]
    head[:100] = raw.ljust(100, b"\0")
    for field, value in fields.items():
        head[places[field] : places[field] + len(value)] = value
    head[148:156] = b"        "
    head[148:156] = b"%06o\0 " % sum(head)
    return bytes(head) + padded(body)


def padded(body: bytes) -> bytes:
    return body + bytes(-len(body) % 512)


def record(name: str, value: str | bytes) -> bytes:
    """Return a record of an extended header, with its own length."""
    text = f" {name}=".encode() + (value if isinstance(value, bytes) else value.encode()) + b"\n"
    size = len(text)
    while size != len(text) + len(str(size)):
        size = len(text) + len(str(size))
    return str(size).encode() + text


def pax(*records: bytes, kind: bytes = tarfile.XHDTYPE) -> bytes:
    return member("pax", kind, b"".join(records))


def named(**values: str | bytes) -> bytes:
    """Return a file with an extended header."""
    return pax(*(record(name, value) for name, value in values.items())) + member("x", body=b"x")


def long(name: bytes, kind: bytes = tarfile.GNUTYPE_LONGNAME) -> bytes:
    return member("././@LongLink", kind, name + b"\0")


def folder(name: str) -> bytes:
    return member(name, tarfile.DIRTYPE, mode=b"0000755\0")


def link(name: str, to: str) -> bytes:
    return member(name, tarfile.SYMTYPE, to=to)


def hard(name: str, to: str) -> bytes:
    return member(name, tarfile.LNKTYPE, to=to)


END = bytes(1024)
FILE = member("f", body=b"f")
NEGATIVE = b"\xff" * 8
HUGE = b"\x80" + b"\xff" * 7
OUT, SHORT = "it leads out of the image's tree", "its archive ends early"
HEADER, EXTENDED = "its archive has an invalid header", "an invalid extended header"
OWNER, LONG = "its size or its owner is invalid", "it has a name of more than 255 bytes"
DEEPER = "it has more than 200 folders or 3000 bytes"
ODD_ARCHIVES: dict[str, tuple[bytes, str]] = {
    "text": (b"no archive" * 100, HEADER),
    "a short block": (FILE + b"x" * 100, HEADER),
    "a page of a proxy": (b"<!DOCTYPE html>".ljust(512), HEADER),
    "wrong checksum": (FILE[:148] + b"000000\0 " + FILE[156:], HEADER),
    "no number as checksum": (FILE[:148] + b"xxxxxxxx" + FILE[156:], HEADER),
    "cut in the data": (member("f", body=bytes(2048))[:1024], SHORT),
    "cut behind the header": (member("f", size=2048), SHORT),
    "cut in the padding": (FILE[:600], SHORT),
    "cut in an extended header": (pax(record("path", "a"))[:600], SHORT),
    "cut in a long name": (long(b"a" * 2000)[:700], SHORT),
    "size negative": (member("f", length=b"\xff" * 12), OWNER),
    "size huge": (member("f", length=b"\x80" + b"\xff" * 11), OWNER),
    "size of an exabyte": (member("f", length=b"\x80" + b"\0" * 3 + b"\x0f" + b"\0" * 7), SHORT),
    "size no number": (member("f", length=b"no number\0"), HEADER),
    "size in pax negative": (named(size="-1"), OWNER),
    "size in pax huge": (named(size="9" * 30), OWNER),
    "size in pax no number": (named(size="1e3"), OWNER),
    "size in pax with many digits": (named(size="9" * 10_000), OWNER),
    "size in pax in other digits": (named(size="\u0661"), OWNER),
    "uid negative": (member("f", uid=NEGATIVE), OWNER),
    "uid -5": (member("f", uid=b"-5\0"), OWNER),
    "uid huge": (member("f", uid=HUGE), OWNER),
    "gid huge": (member("f", gid=HUGE), OWNER),
    "uid no number": (member("f", uid=b"root\0"), HEADER),
    "uid in pax -5": (named(uid="-5"), OWNER),
    "uid in pax 2**80": (named(uid=str(2**80)), OWNER),
    "uid in pax 2**32 - 1": (named(uid=str(2**32 - 1)), OWNER),
    "gid in pax no number": (named(gid="root"), OWNER),
    "mtime NaN": (named(mtime="nan"), "its time is invalid"),
    "mtime no number": (named(mtime="yesterday"), "its time is invalid"),
    "mtime empty": (named(mtime=""), "its time is invalid"),
    "mode no number": (member("f", mode=b"rwx\0"), HEADER),
    "NUL in a name": (named(path="a\0b"), "its name has a zero byte"),
    "NUL in a link": (pax(record("linkpath", "a\0b")) + link("l", "x"), "a zero byte"),
    "record without length": (pax(b"path=a\n"), EXTENDED),
    "record of length 0": (pax(b"0 path=a\n"), EXTENDED),
    "record too long": (pax(b"99 path=a\n"), EXTENDED),
    "record too short": (pax(b"5 path=a\n"), EXTENDED),
    "record negative": (pax(b"-9 path=a\n"), EXTENDED),
    "record without value": (pax(b"9 pathab\n"), EXTENDED),
    "record without name": (pax(b"5 =a\n"), EXTENDED),
    "record without end": (pax(b"9 path=aX"), EXTENDED),
    "extended header negative": (member("x", tarfile.XHDTYPE, length=b"\xff" * 12), "-1 bytes"),
    "extended header of 1 GiB": (member("x", tarfile.XHDTYPE, size=1 << 30), "1073741824 bytes"),
    "global header of 1 GiB": (member("x", tarfile.XGLTYPE, size=1 << 30), "1073741824 bytes"),
    "long name of 1 GiB": (member("x", tarfile.GNUTYPE_LONGNAME, size=1 << 30), "1073741824 by"),
    "long link of 1 GiB": (member("x", tarfile.GNUTYPE_LONGLINK, size=1 << 30), "1073741824 by"),
    "sparse file of GNU": (member("s", tarfile.GNUTYPE_SPARSE), "sparse"),
    "sparse file of pax": (named(**{"GNU.sparse.realsize": str(2**60)}), "sparse"),
    "part of a file": (member("m", b"M"), "sparse file, or of an unknown kind"),
    "unknown kind": (member("z", b"Z"), "sparse file, or of an unknown kind"),
    "..": (member(".."), OUT),
    "../f": (member("../f"), OUT),
    "a/../../f": (member("a/../../f"), OUT),
    "a/..": (folder("a/.."), OUT),
    "no name": (member(""), OUT),
    "a file that is the root": (member("./"), OUT),
    "a link that is the root": (link(".", "/"), OUT),
    "a hard link to the root": (hard("h", "/"), OUT),
    "a hard link outside": (hard("h", "../key"), OUT),
    "a hard link through a link": (link("l", "../ours") + hard("h", "l/key"), OUT),
    "through a link outside": (link("l", "../ours") + member("l/f"), OUT),
    "through two links outside": (link("l", "..") + link("m", "l/ours") + member("m/f"), OUT),
    "a loop of links": (link("l", "m") + link("m", "l") + member("l/f"), "its links are a loop"),
    "a link to itself": (link("l", "l") + member("l/f"), "its links are a loop"),
    "a hard link to itself": (hard("h", "h"), "it is a hard link to no file"),
    "a hard link to a long name": (pax(record("linkpath", "x" * 300)) + hard("h", "x"), LONG),
    "a hard link to nothing": (hard("h", "missing"), "it is a hard link to no file"),
    "a hard link to a folder": (folder("d") + hard("h", "d"), "it is a hard link to no file"),
    "a hard link into a file": (FILE + hard("h", "f/x"), "a folder of its path is a file"),
    "a hard link over its folder": (
        folder("d") + member("d/f") + hard("d", "d/f"),
        "it takes the place of what it is a link to",
    ),
    "a hard link without target": (hard("h", ""), OUT),
    "a link without target": (link("l", ""), "the target of its link is empty"),
    "a link with a long target": (
        long(b"t" * 5000, tarfile.GNUTYPE_LONGLINK) + link("l", "x"),
        "the target of its link is empty or too long",
    ),
    "a file in a file": (FILE + member("f/x"), "a folder of its path is a file"),
    "a folder in a file": (FILE + folder("f/x"), "a folder of its path is a file"),
    "a long name": (named(path="a" * 256), LONG),
    "a long name of a folder": (named(path="a" * 256 + "/x"), LONG),
    "a long path": (named(path="/".join(["a" * 100] * 40)), DEEPER),
    "a deep path": (named(path="a/" * 201 + "a"), DEEPER),
    "deep by links": (
        named(path="a/" * 150 + "a") + pax(record("linkpath", "a/" * 150)) + link("l", "x")
        + named(path="l/" + "b/" * 100 + "b"),
        DEEPER,
    ),
    ".wh.": (member(".wh."), OUT),
    ".wh..": (member("d/.wh.."), OUT),
    ".wh...": (member(".wh..."), OUT),
    "a removal outside": (member("../.wh.key"), OUT),
    "a removal through a link": (link("l", "../ours") + member("l/.wh.key"), OUT),
    "all removed through a link": (link("l", "../ours") + member("l/.wh..wh..opq"), OUT),
    "a folder in a removal": (member(".wh.d/f"), "the name of a folder begins with .wh."),
}  # fmt: skip
RIGHT_ARCHIVES: dict[str, tuple[bytes, dict[str, str]]] = {
    "nothing": (b"", {}),
    "only the end": (END, {}),
    "no end": (FILE, {"f": "f"}),
    "half an end": (FILE + bytes(512), {"f": "f"}),
    "data behind the end": (FILE + END + b"x" * 512, {"f": "f"}),
    "absolute": (member("/f", body=b"1") + member("//g", body=b"2"), {"f": "1", "g": "2"}),
    "./": (folder("./") + member("./f", body=b"1") + member("a/./b"), {"f": "1", "a/b": ""}),
    "many slashes": (member("a//b///c", body=b"1"), {"a/b/c": "1"}),
    "twice": (member("f", body=b"1") + member("f", body=b"22"), {"f": "22"}),
    "a file over a folder": (member("d/a") + member("d", body=b"1"), {"d": "1"}),
    "a folder over a file": (member("d", body=b"1") + folder("d") + member("d/a"), {"d/a": ""}),
    "a file over a link": (link("l", "../ours/key") + member("l", body=b"1"), {"l": "1"}),
    "a folder over a link": (link("l", "../ours") + folder("l") + member("l/f"), {"l/f": ""}),
    "a link over a folder": (member("d/a") + link("d", "../ours"), {"d": "-> ../ours"}),
    "a folder twice": (folder("d") + member("d/a") + folder("d"), {"d/a": ""}),
    "through a link inside": (
        folder("usr") + link("bin", "/usr") + member("bin/f", body=b"1"),
        {"usr/f": "1", "bin": "-> /usr"},
    ),
    "through a link to nothing": (
        link("run", "/var/run") + member("run/f"),
        {"var/run/f": "", "run": "-> /var/run"},
    ),
    "a hard link": (FILE + hard("h", "/f"), {"f": "f", "h": "f"}),
    "a hard link twice": (FILE + hard("h", "f") + hard("h", "f"), {"f": "f", "h": "f"}),
    "a hard link to a link": (
        link("l", "../ours/key") + hard("h", "l"),
        {"l": "-> ../ours/key", "h": "-> ../ours/key"},
    ),
    "a hard link with a size": (FILE + member("h", tarfile.LNKTYPE, to="f", size=7), {
        "f": "f", "h": "f"}),
    "devices, pipes": (
        member("c", tarfile.CHRTYPE) + member("b", tarfile.BLKTYPE) + member("p", tarfile.FIFOTYPE),
        {},
    ),
    "a contiguous file": (member("f", tarfile.CONTTYPE, b"f"), {"f": "f"}),
    "an old folder": (member("d/", tarfile.AREGTYPE) + member("d/f"), {"d/f": ""}),
    "a long name": (long(b"a" * 200) + member("x", body=b"1"), {"a" * 200: "1"}),
    "a long name twice": (long(b"a" * 200) + long(b"b" * 200) + member("x"), {"b" * 200: ""}),
    "bytes that are no text": (long(b"a\xff") + member("x"), {"a\udcff": ""}),
    "a newline": (long(b"a\nb") + member("x"), {"a\nb": ""}),
    "control characters": (long(b"\x1b[31m\r") + member("x"), {"\x1b[31m\r": ""}),
    "a global header": (pax(record("path", "all"), kind=tarfile.XGLTYPE) + FILE, {"f": "f"}),
    "attributes": (named(**{"SCHILY.xattr.user.x": "1"}), {"x": "x"}),
    "a name in pax": (named(path="a/b"), {"a/b": "x"}),
    "an empty extended header": (pax() + FILE, {"f": "f"}),
    "mtime huge": (named(mtime="1e300"), {"x": "x"}),
    "mtime infinite": (named(mtime="-inf"), {"x": "x"}),
    "mtime in bits": (member("f", mtime=b"\x80" + b"\xff" * 11), {"f": ""}),
    "mtime negative": (member("f", mtime=b"\xff" * 12), {"f": ""}),
    "marks of AUFS": (member(".wh..wh.plnk") + member(".wh..wh.aufs"), {}),
    "a removal of nothing": (member("d/.wh.a") + member(".wh.b") + member(".wh..wh..opq"), {}),
    "a removal in a removed folder": (member(".wh.d") + member("d/.wh.a"), {}),
}  # fmt: skip


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tree]:
    """Return the tree of an ordinary user; beside it nothing may change."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    ours = tmp_path / "ours"
    ours.mkdir(mode=0o711)
    (ours / "key").write_text("mine")
    (tmp_path / "tree").mkdir()
    yield Tree(tmp_path / "tree")
    assert {path.name for path in tmp_path.iterdir()} <= {"tree", "ours", "layer"}
    assert [path.name for path in ours.iterdir()] == ["key"]
    assert (ours / "key").read_text() == "mine"
    assert (ours / "key").stat().st_nlink == 1
    assert stat.S_IMODE(ours.stat().st_mode) == 0o711


def add(tree: Tree, folder: Path, content: bytes) -> None:
    (folder / "layer").write_bytes(content)
    unpack(tree, folder / "layer")


def content_of(root: Path) -> dict[str, str]:
    """Return the files and links of a tree."""
    paths = (path for path in root.rglob("*") if path.is_symlink() or not path.is_dir())
    return {
        str(path.relative_to(root)): f"-> {path.readlink()}"
        if path.is_symlink()
        else path.read_text()
        for path in paths
    }


@pytest.mark.parametrize(("content", "why"), ODD_ARCHIVES.values(), ids=[*ODD_ARCHIVES])
def test_an_odd_archive_is_refused_in_words(
    content: bytes, why: str, tree: Tree, tmp_path: Path
) -> None:
    with pytest.raises(InputError) as caught:
        add(tree, tmp_path, content)
    assert why in caught.value.problems[0].why


@pytest.mark.parametrize(("content", "files"), RIGHT_ARCHIVES.values(), ids=[*RIGHT_ARCHIVES])
def test_a_strange_archive_is_unpacked_as_its_kind_says(
    content: bytes, files: dict[str, str], tree: Tree, tmp_path: Path
) -> None:
    add(tree, tmp_path, content)
    assert content_of(tmp_path / "tree") == files
    settle(tree)


def test_an_owner_as_large_as_the_kernel_knows_is_recorded(tree: Tree, tmp_path: Path) -> None:
    add(tree, tmp_path, named(uid=str(2**32 - 2), gid="0"))
    inode = (tmp_path / "tree/x").stat().st_ino
    assert settle(tree) == [f"{inode} {2**32 - 2} 0\n"]


def bomb(size: int) -> bytes:
    """Return a file of nothing, compressed a thousand times."""
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=9) as file:
        file.write(member("f", size=size))
        for _ in range(size >> 20):
            file.write(bytes(1 << 20))
    return packed.getvalue()


def test_a_bomb_of_gzip_ends_before_the_disk_is_full(
    tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layers, "_ALWAYS", 1 << 20)
    content = bomb(64 << 20)
    with pytest.raises(InputError, match="its layers become more than 64 times larger"):
        add(tree, tmp_path, content)
    assert (tmp_path / "tree/f").stat().st_size <= (1 << 20) + 64 * len(content)


@pytest.mark.parametrize("cut", [12, 200], ids=["in the head", "in the data"])
def test_a_broken_stream_of_gzip_is_refused(cut: int, tree: Tree, tmp_path: Path) -> None:
    content = gzip.compress(FILE + os.urandom(4096) + END)
    with pytest.raises(InputError):
        add(tree, tmp_path, content[:cut])
    with pytest.raises(InputError):
        add(tree, tmp_path, content[:cut] + b"\xff" * 20 + content[cut + 20 :])


def test_extended_headers_take_little_memory(tree: Tree, tmp_path: Path) -> None:
    header = member("x", tarfile.XHDTYPE, size=64 << 20) + record("path", "a" * (64 << 20))
    add_bomb = gzip.compress(header, 1)
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match="its extended header has 67108864 bytes"):
            add(tree, tmp_path, add_bomb)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_many_records_take_linear_time(tree: Tree, tmp_path: Path) -> None:
    records = b"".join(record(f"{number:x}", "") for number in range(90_000))
    add(tree, tmp_path, pax(records) + FILE)


def test_an_image_has_no_more_files_than_the_limit(
    tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trees, "MOST_MEMBERS", 100)
    add(tree, tmp_path, FILE * 100)
    with pytest.raises(InputError, match="the image has more than 100 files"):
        add(tree, tmp_path, FILE)


def test_each_byte_of_an_archive_may_be_wrong(tree: Tree, tmp_path: Path) -> None:
    """Whatever a damaged archive means, it is unpacked or refused, and nothing else is written."""
    whole = bytearray(folder("d") + named(path="d/f", mtime="1.5") + hard("h", "d/f") + END)
    for place in range(0, len(whole), 3):
        changed = whole.copy()
        changed[place] ^= 1 << place % 8
        try:
            add(tree, tmp_path, bytes(changed))
        except InputError:
            continue
