"""The tables of a hostile squashfs cost little, and lead to its own bytes alone."""

import struct
from pathlib import Path

import pytest

from lumicontainer.errors import InputError
from lumicontainer.image.assembly import layout
from lumicontainer.image.assembly.layout import NOTHING, Superblock
from lumicontainer.image.assembly.reader import read_squashfs

from ..unit.image.assembly.layers import Tree, write_layer

MANY = 0xFFFFFFFF
OF_FOLDER = layout.INODE.size + layout.DIRECTORY.size


def stored(data: bytes) -> bytes:
    """Return a block of a table."""
    return struct.pack("<H", len(data) | layout.STORED) + data


def write(path: Path, inodes: bytes, listings: bytes, fragments: int = 0) -> Path:
    """Write a squashfs of two tables, which states more files than there are."""
    content = bytes(layout.SUPERBLOCK_SIZE)
    places = []
    block = stored(layout.FRAGMENT.pack(layout.SUPERBLOCK_SIZE, 0, 0) * 512)
    for table in (stored(inodes), stored(listings), block if fragments else b""):
        places.append(len(content))
        content += table
    rows = -(-fragments * layout.FRAGMENT.size // layout.METADATA)
    of_fragments = len(content) if fragments else layout.ABSENT
    content += struct.pack("<Q", places[2]) * rows
    ids = len(content)
    content += stored(bytes(4))
    head = Superblock(
        *(layout.MAGIC, MANY, 0, 4096, fragments, layout.GZIP, 12, 0, 1, 4, 0, 0),
        *(len(content) + 8, len(content), layout.ABSENT, *places[:2]),
        *(of_fragments, layout.ABSENT),
    )
    content += struct.pack("<Q", ids)
    path.write_bytes(head.packed() + content[layout.SUPERBLOCK_SIZE :])
    return path


def folder(size: int, offset: int) -> bytes:
    head = layout.INODE.pack(layout.FOLDER, 0o755, 0, 0, 0, 1)
    return head + layout.DIRECTORY.pack(0, 2, size + 3, offset, 1)


def listing(*rows: tuple[bytes, int, int]) -> bytes:
    """Return a listing of names, each with the kind and the place of its inode."""
    entries = [layout.ENTRY.pack(at, 0, kind, len(name) - 1) + name for name, kind, at in rows]
    return layout.LISTING.pack(len(rows) - 1, 0, 1) + b"".join(entries)


def require_refused(path: Path, why: str) -> None:
    with pytest.raises(InputError) as caught:
        read_squashfs(path)
    assert why in caught.value.problems[0].why


def test_a_folder_in_two_folders_is_refused(tmp_path: Path) -> None:
    below = [OF_FOLDER * (number + 1) for number in range(16)]
    lists = [listing((b"a", 1, place), (b"b", 1, place)) for place in below]
    size = len(lists[0])
    inodes = b"".join(folder(size, size * number) for number in range(16)) + folder(0, 0)
    require_refused(write(tmp_path / "image", inodes, b"".join(lists)), "in two folders")


def test_folders_have_no_listing_in_common(tmp_path: Path) -> None:
    file = 4 * OF_FOLDER
    shared = listing(*((b"%03d" % number, layout.FILE, file) for number in range(200)))
    top = listing(*((b"%d" % number, 1, OF_FOLDER * (number + 1)) for number in range(3)))
    inodes = folder(len(top), 0) + 3 * folder(len(shared), len(top))
    inodes += layout.INODE.pack(layout.FILE, 0o644, 0, 0, 0, 5)
    inodes += layout.REGULAR.pack(0, NOTHING, 0, 0)
    require_refused(write(tmp_path / "image", inodes, top + shared), "one listing")


def test_blocks_of_tables_that_are_read_again_and_again_have_a_limit(tmp_path: Path) -> None:
    path = write(tmp_path / "image", folder(0, 0), bytes(40), fragments=2_000_000)
    require_refused(path, "a table is too large")


def test_a_squashfs_ends_where_its_partition_does(tmp_path: Path) -> None:
    path = write_layer(tmp_path / "image", Tree({b"a": b"content"}))
    size = path.stat().st_size
    with path.open("ab") as file:
        file.write(bytes(4096))
    read_squashfs(path, size=size)
    with pytest.raises(InputError):
        read_squashfs(path, size=size - 4096)
