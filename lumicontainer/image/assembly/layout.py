"""The layout of a squashfs (Documentation/filesystems/squashfs.rst, fs/squashfs/squashfs_fs.h)."""

import struct
from typing import NamedTuple

from lumicontainer.errors import InputError, Problem

MAGIC = 0x73717368
GZIP, ZSTD = 1, 6
NAMES = {GZIP: "gzip", 2: "lzma", 3: "lzo", 4: "xz", 5: "lz4", ZSTD: "zstd"}
METADATA = 8192
"""The bytes of a full block of a table."""
STORED = 0x8000
"""Marks the size of a table's block that is not compressed."""
STORED_DATA = 1 << 24
"""The same for a block of data and for a fragment."""
ABSENT = 0xFFFFFFFFFFFFFFFF
"""The place of a table that does not exist."""
NOTHING = 0xFFFFFFFF
"""The number of a fragment, or of attributes, that a file does not have."""
PLAIN_INODES, NO_ATTRIBUTES, OPTIONS, PLAIN_IDS = 0x0001, 0x0200, 0x0400, 0x0800
"""Flags: tables that are not compressed, no attributes, options of the compressor follow."""
FOLDER, FILE, LINK, BLOCK, CHARACTER, PIPE, SOCKET = range(1, 8)
"""The kinds of inodes; an extended inode has a number higher by seven."""
EXTENDED = 7

_SUPERBLOCK = struct.Struct("<IIIIIHHHHHHQQQQQQQQ")
SUPERBLOCK_SIZE = _SUPERBLOCK.size

INODE = struct.Struct("<HHHHII")
"""Kind, mode, owner, group, time, number: the head of each inode."""
DIRECTORY, DIRECTORY_X = struct.Struct("<IIHHI"), struct.Struct("<IIIIHHI")
REGULAR, REGULAR_X = struct.Struct("<IIII"), struct.Struct("<QQQIIII")
SYMLINK, DEVICE, SPECIAL = struct.Struct("<II"), struct.Struct("<II"), struct.Struct("<I")
LISTING, ENTRY, INDEX = struct.Struct("<III"), struct.Struct("<HhHH"), struct.Struct("<III")
FRAGMENT = struct.Struct("<QII")


class Superblock(NamedTuple):
    """Hold the first bytes of a squashfs; places count from its begin."""

    magic: int
    inodes: int
    time: int
    block_size: int
    fragments: int
    compressor: int
    block_log: int
    flags: int
    ids: int
    major: int
    minor: int
    root: int
    size: int
    id_table: int
    attribute_table: int
    inode_table: int
    directory_table: int
    fragment_table: int
    export_table: int

    def packed(self) -> bytes:
        """Return its bytes."""
        return _SUPERBLOCK.pack(*self)


def unpack_superblock(data: bytes) -> Superblock:
    """Return the superblock that ``data`` begins with; raise ``struct.error`` if it is short."""
    return Superblock(*_SUPERBLOCK.unpack_from(data))


def damaged(file: object, why: str) -> InputError:
    """Return the error for a squashfs that cannot be read."""
    hint = "copy it from its source, or rebuild it"
    return InputError(Problem("cannot read the file system", str(file), why, hint))
