"""Write the tables of a squashfs."""

import struct
from collections.abc import Callable, Sequence
from typing import BinaryIO, NamedTuple

from lumicontainer.image.assembly import layout
from lumicontainer.image.assembly.layout import (
    ABSENT,
    EXTENDED,
    FILE,
    FOLDER,
    LINK,
    METADATA,
    NOTHING,
    STORED,
    Superblock,
)
from lumicontainer.image.assembly.memory import garbage_collector_off
from lumicontainer.image.assembly.reader import Fragment
from lumicontainer.image.assembly.tree import Node, folders

_STORED_BLOCK = METADATA + 2
_PAGE = 4096
"""The kernel mounts no file system whose last page is incomplete."""
MOST_OWNERS = 65535
_MOST_IN_RUN = 256
_SMALL, _LARGE = 0xFFFF, 0xFFFFFFFF


class Encoding(NamedTuple):
    """Hold what a squashfs has in common with the layers that it is made of."""

    compressor: int
    block_size: int
    time: int


class OwnersError(Exception):
    """Say that the files of a layer have owners for which a squashfs has no more room."""

    def __init__(self, layer: int) -> None:
        super().__init__(f"more than {MOST_OWNERS} owners of files")
        self.layer = layer


class Placed(NamedTuple):
    """Hold where the data of a file are in the new squashfs."""

    start: int
    fragment: int
    fragment_offset: int


Place = Callable[[Node], Placed]


def write_tables(
    file: BinaryIO,
    begin: int,
    root: Node,
    place: Place,
    fragments: Sequence[Fragment],
    encoding: Encoding,
) -> int:
    """Write the tables after the data, and the superblock; return the size, a multiple of 4096.

    ``file`` is at the end of the data; the squashfs begins at its byte ``begin``. ``links`` of the
    nodes are set. Raises ``OwnersError`` if the tree has too many for a squashfs.
    """
    tables = _Tables(place)
    with garbage_collector_off():
        tables.write(root)
    inode_table = file.tell() - begin
    file.write(_stored(bytes(tables.inodes)))
    directory_table = file.tell() - begin
    file.write(_stored(bytes(tables.listings)))
    rows = b"".join(layout.FRAGMENT.pack(*each, 0) for each in fragments)
    fragment_table = _write_rows(file, begin, rows)
    id_table = _write_rows(file, begin, struct.pack(f"<{len(tables.owners)}I", *tables.owners))
    places = _Places(inode_table, directory_table, fragment_table, id_table, file.tell() - begin)
    file.write(bytes(-places.end % _PAGE))
    end = file.tell() - begin
    file.seek(begin)
    file.write(_superblock(tables, root, len(fragments), places, encoding).packed())
    return end


class _Places(NamedTuple):
    """Hold where the tables are, and the end of the last one."""

    inodes: int
    listings: int
    fragments: int
    ids: int
    end: int


def _superblock(
    tables: "_Tables", root: Node, fragments: int, places: _Places, encoding: Encoding
) -> Superblock:
    return Superblock(
        magic=layout.MAGIC,
        inodes=tables.count,
        time=encoding.time,
        block_size=encoding.block_size,
        fragments=fragments,
        compressor=encoding.compressor,
        block_log=encoding.block_size.bit_length() - 1,
        flags=layout.PLAIN_INODES | layout.NO_ATTRIBUTES | layout.PLAIN_IDS,
        ids=len(tables.owners),
        major=4,
        minor=0,
        root=_reference(root),
        size=places.end,
        id_table=places.ids,
        attribute_table=ABSENT,
        inode_table=places.inodes,
        directory_table=places.listings,
        fragment_table=places.fragments,
        export_table=ABSENT,
    )


def _stored(data: bytes) -> bytes:
    """Return a table as blocks that are not compressed."""
    parts = (data[at : at + METADATA] for at in range(0, len(data), METADATA))
    return b"".join(struct.pack("<H", len(part) | STORED) + part for part in parts)


def _write_rows(file: BinaryIO, begin: int, rows: bytes) -> int:
    """Write the blocks of a table, then their places; return the place of these."""
    first = file.tell() - begin
    file.write(_stored(rows))
    places = range(first, file.tell() - begin, _STORED_BLOCK)
    place = file.tell() - begin
    file.write(struct.pack(f"<{len(places)}Q", *places))
    return place


class _Tables:
    """Make the inodes and the listings of a tree."""

    def __init__(self, place: Place) -> None:
        self.inodes, self.listings = bytearray(), bytearray()
        self.owners: dict[int, int] = {}
        self.count = 0
        self._place = place

    def write(self, root: Node) -> None:
        """Write all inodes and listings."""
        # A folder's listing has the places of the inodes in it.
        order = list(folders(root))[::-1]
        parents = {id(n): f for f in order for n in f.children.values() if n.kind == FOLDER}
        for folder in order:
            for node in (folder, *folder.children.values()):
                node.number, node.inode = 0, -1
        for folder in order:
            self._number(folder)
        for folder in order:
            names = sorted(folder.children)
            for name in names:
                node = folder.children[name]
                if node.inode < 0 and node.kind != FOLDER:
                    self._write_node(node)
            parent = parents.get(id(folder))
            self._write_folder(folder, names, parent.number if parent else self.count + 1)

    def _number(self, folder: Node) -> None:
        nodes = [folder.children[name] for name in sorted(folder.children)]
        for node in (*(each for each in nodes if each.kind != FOLDER), folder):
            if not node.number:
                self.count += 1
                node.number = self.count

    def _head(self, kind: int, node: Node) -> bytes:
        node.inode = len(self.inodes)
        ids = (self._owner(node.owner, node.layer), self._owner(node.group, node.layer))
        return layout.INODE.pack(kind, node.mode, *ids, node.time, node.number)

    def _owner(self, owner: int, layer: int) -> int:
        number = self.owners.setdefault(owner, len(self.owners))
        if number >= MOST_OWNERS:
            raise OwnersError(layer)
        return number

    def _write_node(self, node: Node) -> None:
        if node.kind == FILE:
            self._write_file(node)
        elif node.kind == LINK:
            rest = layout.SYMLINK.pack(node.links, len(node.target)) + node.target
            self.inodes += self._head(LINK, node) + rest
        elif node.kind in (layout.BLOCK, layout.CHARACTER):
            self.inodes += self._head(node.kind, node)
            self.inodes += layout.DEVICE.pack(node.links, node.device)
        else:
            self.inodes += self._head(node.kind, node) + layout.SPECIAL.pack(node.links)

    def _write_file(self, node: Node) -> None:
        start, fragment, offset = self._place(node)
        if node.links > 1 or node.sparse or max(start, node.size) > _LARGE:
            rest = layout.REGULAR_X.pack(
                start, node.size, node.sparse, node.links, fragment, offset, NOTHING
            )
            self.inodes += self._head(FILE + EXTENDED, node) + rest
        else:
            rest = layout.REGULAR.pack(start, fragment, offset, node.size)
            self.inodes += self._head(FILE, node) + rest
        self.inodes += struct.pack(f"<{len(node.blocks)}I", *node.blocks)

    def _write_folder(self, node: Node, names: Sequence[bytes], parent: int) -> None:
        begin = len(self.listings)
        start, offset = _block_and_offset(begin)
        index = self._write_listing(node, names)
        size = len(self.listings) - begin + 3
        if size <= _SMALL and not index:
            row = (start, node.links, size, offset, parent)
            self.inodes += self._head(FOLDER, node) + layout.DIRECTORY.pack(*row)
            return
        long = (node.links, size, start, parent, len(index), offset, NOTHING)
        self.inodes += self._head(FOLDER + EXTENDED, node) + layout.DIRECTORY_X.pack(*long)
        for place, block, name in index:
            self.inodes += layout.INDEX.pack(place, block, len(name) - 1) + name

    def _write_listing(self, node: Node, names: Sequence[bytes]) -> list[tuple[int, int, bytes]]:
        """Write the listing of a folder; return its index.

        The index has the first name of each block of the table, so that a look-up reads one block.
        """
        begin = len(self.listings)
        block, index, at = begin // METADATA, [], 0
        while at < len(names):
            run = self._run(node, names, at)
            now = len(self.listings) // METADATA
            if now != block:
                block = now
                index.append((len(self.listings) - begin, block * _STORED_BLOCK, run[0]))
            first = node.children[run[0]]
            place, _ = _block_and_offset(first.inode)
            self.listings += layout.LISTING.pack(len(run) - 1, place, first.number)
            for name in run:
                child = node.children[name]
                row = (child.inode % METADATA, child.number - first.number, child.kind)
                self.listings += layout.ENTRY.pack(*row, len(name) - 1) + name
            at += len(run)
        return index

    def _run(self, node: Node, names: Sequence[bytes], at: int) -> Sequence[bytes]:
        """Return the next names that one header can serve."""
        first = node.children[names[at]]
        block, number = first.inode // METADATA, first.number
        for end in range(at, min(at + _MOST_IN_RUN, len(names))):
            child = node.children[names[end]]
            near = -32768 <= child.number - number <= 32767
            if child.inode // METADATA != block or not near:
                return names[at:end]
        return names[at : at + _MOST_IN_RUN]


def _reference(node: Node) -> int:
    """Return the place of an inode as a superblock holds it."""
    block, offset = _block_and_offset(node.inode)
    return block << 16 | offset


def _block_and_offset(place: int) -> tuple[int, int]:
    """Return where the byte ``place`` of a table is stored."""
    block, offset = divmod(place, METADATA)
    return block * _STORED_BLOCK, offset
