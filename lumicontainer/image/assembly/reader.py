"""Read the tables of a squashfs, whose bytes may be of anybody."""

import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from lumicontainer.image.assembly import layout
from lumicontainer.image.assembly.codecs import CODECS
from lumicontainer.image.assembly.layout import (
    EXTENDED,
    FILE,
    FOLDER,
    LINK,
    METADATA,
    NOTHING,
    STORED,
    STORED_DATA,
    Superblock,
)
from lumicontainer.image.assembly.memory import garbage_collector_off
from lumicontainer.image.assembly.tree import Node

_MOST_TABLES = 2 << 30
"""Bytes of all tables; 10 million files take less."""
_ALWAYS, _TIMES = 16 << 20, 32
"""Tables may become as many bytes, and as many times the size of the squashfs."""
_LONGEST_TARGET = 65536
_OF_PATH = 4096
"""Linux opens no longer path (PATH_MAX)."""
_NO_NAME = (b"", b".", b"..")


class Fragment(NamedTuple):
    """Hold the place of a block with the ends of files, and its stored size."""

    start: int
    stored: int
    """With ``STORED_DATA``."""


@dataclass(frozen=True)
class Squashfs:
    """Hold a squashfs in a file, and its tree."""

    path: Path
    offset: int
    superblock: Superblock
    root: Node
    fragments: Sequence[Fragment]
    files: Sequence[Node]
    """Its regular files; a later layer may remove some from the tree."""


def read_squashfs(
    path: Path, offset: int = 0, number: int = 0, size: int | None = None
) -> Squashfs:
    """Return the squashfs at the byte ``offset`` of a file, which may have ``size`` bytes.

    Without a size it may reach the end of the file. The nodes of its tree say that they are of the
    layer ``number``. Raises ``InputError`` if it is damaged, or if ``CODECS`` does not have its
    compression.
    """
    with path.open("rb", buffering=0) as file, garbage_collector_off():
        try:
            most = os.fstat(file.fileno()).st_size - offset
            tables = _read_tables(file.fileno(), offset, most if size is None else size)
            nodes = _Nodes(tables, number)
            return Squashfs(
                path, offset, tables.superblock, nodes.root, tables.fragments, nodes.files
            )
        except (struct.error, LookupError, ValueError, OverflowError) as error:
            raise layout.damaged(path, str(error)) from error


def read_superblock(path: Path, offset: int = 0) -> Superblock:
    """Return the superblock at the byte ``offset`` of a file; raise ``InputError`` if damaged."""
    with path.open("rb") as file:
        file.seek(offset)
        head = file.read(layout.SUPERBLOCK_SIZE)
    try:
        superblock = layout.unpack_superblock(head)
        _require_sane(superblock)
    except (struct.error, ValueError) as error:
        raise layout.damaged(path, str(error)) from error
    return superblock


def can_read(path: Path, offset: int = 0) -> bool:
    """Return whether a file has a squashfs there whose compression can be read."""
    with path.open("rb") as file:
        file.seek(offset)
        head = file.read(layout.SUPERBLOCK_SIZE)
    try:
        return layout.unpack_superblock(head).compressor in CODECS
    except struct.error:
        return False


class _Tables(NamedTuple):
    superblock: Superblock
    inodes: "_Table"
    listings: "_Table"
    ids: Sequence[int]
    fragments: Sequence[Fragment]


class _Table(NamedTuple):
    """Hold the bytes of a table, and where each stored block of it begins in them."""

    data: bytes
    begins: dict[int, int]


@dataclass
class _Source:
    """Read the blocks of tables."""

    file: int
    offset: int
    superblock: Superblock
    left: int
    """Bytes that its tables may still have."""

    def read(self, place: int, size: int) -> bytes:
        """Return ``size`` bytes at a place of the squashfs."""
        if place < 0 or place + size > self.superblock.size:
            raise ValueError(f"a table leads to byte {place}, after the end")
        content = os.pread(self.file, size, self.offset + place)
        if len(content) != size:
            raise ValueError("the file is cut short")
        return content

    def block(self, place: int) -> tuple[bytes, int]:
        """Return the content of a table's block, and the place after it."""
        (head,) = struct.unpack("<H", self.read(place, 2))
        size = head & ~STORED
        data = self.read(place + 2, size)
        if not head & STORED:
            data = CODECS[self.superblock.compressor].decompress(data, METADATA)
        self.left -= len(data)
        if not 0 < len(data) <= METADATA or self.left < 0:
            raise ValueError("a table is too large")
        return data, place + 2 + size

    def table(self, place: int, end: int) -> _Table:
        """Return the table between two places."""
        parts, begins, at, size = [], {}, place, 0
        while at < end:
            if size % METADATA:
                raise ValueError("a block of a table is not full")
            begins[at - place] = size
            data, at = self.block(at)
            parts.append(data)
            size += len(data)
        return _Table(b"".join(parts), begins)

    def rows(self, place: int, count: int, width: int) -> bytes:
        """Return the rows of a table of which ``place`` has the places of the blocks."""
        blocks = -(-count * width // METADATA)
        places = struct.unpack(f"<{blocks}Q", self.read(place, 8 * blocks))
        content = b"".join(self.block(each)[0] for each in places)
        if len(content) < count * width:
            raise ValueError("a table is cut short")
        return content[: count * width]

    def first_block(self, place: int) -> int:
        """Return the place of the first block of such a table."""
        block: int = struct.unpack("<Q", self.read(place, 8))[0]
        return block


def _read_tables(file: int, offset: int, most: int) -> _Tables:
    superblock = layout.unpack_superblock(os.pread(file, layout.SUPERBLOCK_SIZE, offset))
    _require_sane(superblock)
    if superblock.compressor not in CODECS:
        name = layout.NAMES.get(superblock.compressor, f"number {superblock.compressor}")
        raise ValueError(f"its compression is {name}, expected gzip or zstd")
    if superblock.size > most:
        raise ValueError(f"it states {superblock.size} bytes, expected at most {most}")
    left = min(_MOST_TABLES, _ALWAYS + _TIMES * superblock.size)
    source = _Source(file, offset, superblock, left)
    fragments: list[Fragment] = []
    end = source.first_block(superblock.id_table)
    if superblock.export_table != layout.ABSENT:
        end = source.first_block(superblock.export_table)
    if superblock.fragments:
        rows = source.rows(superblock.fragment_table, superblock.fragments, layout.FRAGMENT.size)
        fragments = [Fragment(*row[:2]) for row in layout.FRAGMENT.iter_unpack(rows)]
        end = source.first_block(superblock.fragment_table)
    for each in fragments:
        _require_data(each.start, each.stored & ~STORED_DATA, superblock)
    ids = struct.unpack(f"<{superblock.ids}I", source.rows(superblock.id_table, superblock.ids, 4))
    inodes = source.table(superblock.inode_table, superblock.directory_table)
    listings = source.table(superblock.directory_table, end)
    return _Tables(superblock, inodes, listings, ids, fragments)


def _require_sane(superblock: Superblock) -> None:
    """Raise ``ValueError`` for the superblock of another format, or of a damaged file."""
    if superblock.magic != layout.MAGIC or superblock.major != 4:
        raise ValueError("it has no squashfs of version 4")
    log = superblock.block_log
    if not 12 <= log <= 20 or superblock.block_size != 1 << log:
        raise ValueError(f"invalid size of blocks {superblock.block_size}")


def _require_data(start: int, size: int, superblock: Superblock) -> None:
    if start < layout.SUPERBLOCK_SIZE or start + size > superblock.inode_table:
        raise ValueError(f"the data of a file at byte {start} are outside of the data")
    if size > superblock.block_size:
        raise ValueError(f"a block at byte {start} has {size} bytes")


@dataclass
class _Nodes:
    """Make the tree of the tables' inodes."""

    tables: _Tables
    number: int
    known: dict[tuple[int, int], Node] = field(default_factory=dict)
    folders: set[tuple[int, int]] = field(default_factory=set)
    files: list[Node] = field(default_factory=list)
    count: int = 0
    root: Node = field(init=False)
    inode_bytes: int = field(init=False)
    listing_bytes: int = field(init=False)
    """The bytes of the tables that no inode and no listing has used: none is used twice."""

    def __post_init__(self) -> None:
        self.inode_bytes = len(self.tables.inodes.data)
        self.listing_bytes = len(self.tables.listings.data)
        place = self.tables.superblock.root
        self.root, listing = self._folder(place >> 16, place & 0xFFFF)
        # Of each folder the place of its listing, and the length of its path.
        waiting = [(self.root, listing, 0)]
        while waiting:
            folder, listing, length = waiting.pop()
            for name, kind, block, offset in self._entries(*listing):
                deep = length + 1 + len(name)
                if name in folder.children or deep > _OF_PATH:
                    raise ValueError(f"a folder has {name!r} twice, or too deep")
                if kind == FOLDER:
                    child, below = self._folder(block, offset)
                    waiting.append((child, below, deep))
                else:
                    child = self._node(block, offset)
                folder.children[name] = child

    def _count(self) -> None:
        self.count += 1
        if self.count > self.tables.superblock.inodes:
            raise ValueError("it has more files than it states")
        self._use(layout.INODE.size)

    def _use(self, size: int) -> None:
        self.inode_bytes -= size
        if self.inode_bytes < 0:
            raise ValueError("its files overlap in their table")

    def _head(self, block: int, offset: int) -> tuple[int, Node, int]:
        """Return the kind, the node and the place of what follows in the inodes."""
        at = self.tables.inodes.begins[block] + offset
        kind, mode, owner, group, time, _ = layout.INODE.unpack_from(self.tables.inodes.data, at)
        ids = self.tables.ids
        plain = kind - EXTENDED if kind > EXTENDED else kind
        node = Node(plain, mode & 0xFFF, ids[owner], ids[group], time, layer=self.number)
        return kind, node, at + layout.INODE.size

    def _folder(self, block: int, offset: int) -> tuple[Node, tuple[int, int, int]]:
        """Return a folder, and the block, offset and size of its listing."""
        if (block, offset) in self.folders:
            raise ValueError("a folder is in two folders, or in itself")
        self.folders.add((block, offset))
        self._count()
        kind, node, at = self._head(block, offset)
        data = self.tables.inodes.data
        if kind == FOLDER:
            start, _, size, offset, _ = layout.DIRECTORY.unpack_from(data, at)
        elif kind == FOLDER + EXTENDED:
            _, size, start, _, _, offset, _ = layout.DIRECTORY_X.unpack_from(data, at)
        else:
            raise ValueError("a folder is not a folder")
        return node, (start, offset, size)

    def _entries(self, block: int, offset: int, size: int) -> Iterator[tuple[bytes, int, int, int]]:
        """Yield the name, the kind and the place of the inode of each entry of a listing."""
        if size <= 3:  # Listings count three bytes for "." and "..".
            return
        self.listing_bytes -= size - 3
        if self.listing_bytes < 0:
            raise ValueError("two folders have one listing")
        data = self.tables.listings.data
        at = self.tables.listings.begins[block] + offset
        end = at + size - 3
        while at < end:
            count, place, _ = layout.LISTING.unpack_from(data, at)
            at += layout.LISTING.size
            for _ in range(count + 1):
                offset, _, kind, length = layout.ENTRY.unpack_from(data, at)
                at += layout.ENTRY.size
                name = data[at : at + length + 1]
                at += length + 1
                if name in _NO_NAME or len(name) > 255 or b"/" in name or b"\0" in name:
                    raise ValueError(f"invalid name {name!r}")
                yield name, kind, place, offset
        if at != end:
            raise ValueError("a folder's listing has another size than it states")

    def _node(self, block: int, offset: int) -> Node:
        if known := self.known.get((block, offset)):
            return known
        self._count()
        kind, node, at = self._head(block, offset)
        data = self.tables.inodes.data
        if node.kind == FILE:
            self._fill_file(node, at, extended=kind != FILE)
            self.files.append(node)
        elif node.kind == LINK:
            _, size = layout.SYMLINK.unpack_from(data, at)
            at += layout.SYMLINK.size
            self._use(size)
            node.target = data[at : at + size]
            if not 0 < size == len(node.target) < _LONGEST_TARGET or b"\0" in node.target:
                raise ValueError("invalid target of a link")
        elif node.kind in (layout.BLOCK, layout.CHARACTER):
            _, node.device = layout.DEVICE.unpack_from(data, at)
        elif node.kind not in (layout.PIPE, layout.SOCKET):
            raise ValueError(f"invalid kind of file {kind}")
        self.known[block, offset] = node
        return node

    def _fill_file(self, node: Node, at: int, *, extended: bool) -> None:
        data, superblock = self.tables.inodes.data, self.tables.superblock
        if extended:
            start, size, sparse, _, part, place, _ = layout.REGULAR_X.unpack_from(data, at)
            at += layout.REGULAR_X.size
        else:
            (start, part, place, size), sparse = layout.REGULAR.unpack_from(data, at), 0
            at += layout.REGULAR.size
        whole, rest = divmod(size, superblock.block_size)
        count = whole + (part == NOTHING and rest > 0)
        self._use(4 * count)
        if at + 4 * count > len(data):
            raise ValueError("the list of a file's blocks is cut short")
        node.size, node.sparse = size, sparse
        node.blocks = struct.unpack_from(f"<{count}I", data, at)
        sizes = [each & ~STORED_DATA for each in node.blocks]
        if stored := sum(sizes):
            node.start = start
            if max(sizes) > superblock.block_size or start + stored > superblock.inode_table:
                raise ValueError(f"the data of a file at byte {start} are outside of the data")
            if start < layout.SUPERBLOCK_SIZE:
                raise ValueError(f"the data of a file at byte {start} are outside of the data")
        if part != NOTHING:
            if place + rest > superblock.block_size or part >= len(self.tables.fragments):
                raise ValueError("the end of a file is outside of its fragment")
            node.fragment, node.fragment_offset = part, place
