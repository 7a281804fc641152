"""Read the files of a squashfs."""

import hashlib
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

from lumicontainer.image.assembly import layout
from lumicontainer.image.assembly.codecs import CODECS
from lumicontainer.image.assembly.layout import FILE, FOLDER, LINK, NOTHING, STORED_DATA
from lumicontainer.image.assembly.reader import Squashfs
from lumicontainer.image.assembly.tree import Node, find_node


def read_content(layer: Squashfs, node: Node, most: int) -> bytes:
    """Return the content of a file; raise ``InputError`` if it has more than ``most`` bytes."""
    if node.size > most:
        raise layout.damaged(layer.path, f"a file has {node.size} bytes, expected at most {most}")
    with layer.path.open("rb", buffering=0) as file:
        end = b"" if node.fragment == NOTHING else read_fragment(layer, node.fragment)
        return b"".join(read_pieces(file.fileno(), layer, node, end))


class Files(NamedTuple):
    """Hold the merged tree of layers, and the layers that have its data."""

    root: Node
    layers: Sequence[Squashfs]

    def read(self, path: str, most: int) -> bytes | None:
        """Return the content of a file; None if it is missing, or has more than ``most`` bytes.

        A link is followed if it is in the last folder and leads to another name in the same place.
        """
        folder, _, name = path.rpartition("/")
        above, _, last = folder.rpartition("/")
        node = find_node(self.root, folder)
        if node and node.kind == LINK and b"/" not in node.target:
            node = find_node(self.root, f"{above}/{os.fsdecode(node.target)}") if last else None
        node = node.children.get(os.fsencode(name)) if node else None
        if node is None or node.kind != FILE or node.size > most:
            return None
        return read_content(self.layers[node.layer], node, most)

    def folders(self) -> Iterator[tuple[str, Node]]:
        """Yield the path and the node of each folder."""
        waiting = [("", self.root)]
        while waiting:
            path, folder = waiting.pop()
            yield path, folder
            waiting += [
                (f"{path}/{os.fsdecode(name)}", node)
                for name, node in sorted(folder.children.items())
                if node.kind == FOLDER
            ]


def hash_files(layer: Squashfs, files: Iterable[Node]) -> Mapping[int, str]:
    """Return the sha256 of each file's content, by the ``id`` of its node."""
    with (
        layer.path.open("rb", buffering=0) as file,
        ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool,
    ):
        hashed = pool.map(partial(_hash, file.fileno(), layer), _by_fragment(files))
        return {number: digest for group in hashed for number, digest in group}


def find_beginning(layer: Squashfs, files: Iterable[Node], magic: bytes) -> set[int]:
    """Return the ``id`` of the node of each file that begins with ``magic``, of a few bytes."""
    with layer.path.open("rb", buffering=0) as file:
        return {
            id(node)
            for group in _by_fragment(node for node in files if node.size >= len(magic))
            for node, content in _beginnings(file.fileno(), layer, group)
            if content.startswith(magic)
        }


def _by_fragment(files: Iterable[Node]) -> list[list[Node]]:
    """Return groups of files whose ends are in one fragment, which is decompressed once."""
    groups: defaultdict[int, list[Node]] = defaultdict(list)
    for node in files:
        groups[node.fragment].append(node)
    return [*([node] for node in groups.pop(NOTHING, [])), *groups.values()]


def _beginnings(file: int, layer: Squashfs, files: Sequence[Node]) -> Iterator[tuple[Node, bytes]]:
    """Yield the first block of files whose ends are in one fragment; empty for a hole."""
    fragment = b""
    for node in files:
        if node.blocks:
            stored = node.blocks[0]
            yield node, read_block(file, layer, node.start, stored) if stored else b""
        else:
            fragment = fragment or read_fragment(layer, node.fragment)
            yield node, fragment[node.fragment_offset :]


def _hash(file: int, layer: Squashfs, files: Sequence[Node]) -> list[tuple[int, str]]:
    """Return the sha256 of files whose ends are in one fragment."""
    fragment, digests = files[0].fragment, []
    end = b"" if fragment == NOTHING else read_fragment(layer, fragment)
    for node in files:
        digest = hashlib.sha256()
        for piece in read_pieces(file, layer, node, end):
            digest.update(piece)
        digests.append((id(node), digest.hexdigest()))
    return digests


def read_pieces(file: int, layer: Squashfs, node: Node, fragment: bytes) -> Iterator[bytes]:
    """Yield the content of a file of the open ``layer``; ``fragment`` has its end, if one has.

    Raises ``InputError`` if a block is damaged.
    """
    size, left, place = layer.superblock.block_size, node.size, node.start
    for stored in node.blocks:
        expected = min(size, left)
        piece = read_block(file, layer, place, stored) if stored else bytes(expected)
        place += stored & ~STORED_DATA
        left -= expected
        yield _require_size(layer, piece, expected)
    if left:
        begin, end = node.tail(size)
        yield _require_size(layer, fragment[begin:end], left)


def _require_size(layer: Squashfs, piece: bytes, expected: int) -> bytes:
    if len(piece) != expected:
        raise layout.damaged(layer.path, f"a block has {len(piece)} bytes, expected {expected}")
    return piece


def read_fragment(layer: Squashfs, number: int) -> bytes:
    """Return the content of a fragment; raise ``InputError`` if it is damaged."""
    start, stored = layer.fragments[number]
    with layer.path.open("rb", buffering=0) as file:
        return read_block(file.fileno(), layer, start, stored)


def read_block(file: int, layer: Squashfs, start: int, stored: int) -> bytes:
    """Return the content of a block of data in an open layer."""
    size = stored & ~STORED_DATA
    data = os.pread(file, size, layer.offset + start)
    try:
        if len(data) != size:
            raise ValueError("the file is cut short")
        if stored & STORED_DATA:
            return data
        superblock = layer.superblock
        return CODECS[superblock.compressor].decompress(data, superblock.block_size)
    except ValueError as error:
        raise layout.damaged(layer.path, str(error)) from error
