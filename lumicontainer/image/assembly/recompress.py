"""Write a squashfs again in another compression, without unpacking its files."""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from lumicontainer.image.assembly import tree
from lumicontainer.image.assembly.assemble import Source
from lumicontainer.image.assembly.codecs import CODECS
from lumicontainer.image.assembly.content import read_block
from lumicontainer.image.assembly.layout import STORED_DATA, SUPERBLOCK_SIZE
from lumicontainer.image.assembly.reader import Fragment, Squashfs, read_squashfs
from lumicontainer.image.assembly.tree import Node
from lumicontainer.image.assembly.writer import Encoding, Placed, write_tables

_AT_ONCE = 256
"""Blocks that are in memory at the same time."""
Reached = Callable[[int], None]
_Stored = tuple[int, int]
"""The place of a block, and its stored size with ``STORED_DATA``."""


def recompress(
    source: Source, target: Path, compressor: int, reached: Reached = lambda _: None
) -> None:
    """Write a squashfs into a new file with another compression.

    The tree and the sizes of blocks stay, so that layers still fit each other. ``reached`` gets the
    number of bytes read so far. Raises ``InputError`` if the squashfs is damaged.
    """
    layer = read_squashfs(source.path, source.offset, size=source.size)
    own = layer.superblock
    tree.count_links(layer.root)
    with (
        source.path.open("rb", buffering=0) as stored,
        target.open("wb") as file,
        ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool,
    ):
        file.seek(SUPERBLOCK_SIZE)

        def convert(block: _Stored) -> bytes:
            content = read_block(stored.fileno(), layer, *block)
            packed = CODECS[compressor].compress(content)
            return _marked(packed, content)

        moved, done = {}, 0
        for block, packed in _converted(pool, convert, _blocks(layer)):
            moved[block[0]] = _append(file, packed)
            done += block[1] & ~STORED_DATA
            reached(done)
        _write_tables(file, layer, moved, Encoding(compressor, own.block_size, own.time))


def _marked(packed: bytes, content: bytes) -> bytes:
    """Return a block as it is stored, after one byte that says whether it is compressed."""
    return b"\1" + packed if len(packed) < len(content) else b"\0" + content


def _append(file: BinaryIO, packed: bytes) -> _Stored:
    place, size = file.tell(), len(packed) - 1
    file.write(packed[1:])
    return place, size if packed[0] else size | STORED_DATA


def _converted(
    pool: ThreadPoolExecutor, convert: Callable[[_Stored], bytes], blocks: Iterable[_Stored]
) -> Iterator[tuple[_Stored, bytes]]:
    """Yield each block with what it becomes, in order."""
    waiting = iter(blocks)
    while some := list(islice(waiting, _AT_ONCE)):
        yield from zip(some, pool.map(convert, some), strict=True)


def _blocks(layer: Squashfs) -> Iterator[_Stored]:
    """Yield each stored block once, in the order in which they lie: equal layers, equal bytes."""
    starts: dict[int, int] = dict(layer.fragments)
    for node in layer.files:
        place = node.start
        for stored in node.blocks:
            if stored:
                starts[place] = stored
            place += stored & ~STORED_DATA
    yield from sorted(starts.items())


def _write_tables(
    file: BinaryIO, layer: Squashfs, moved: dict[int, _Stored], encoding: Encoding
) -> None:
    places: dict[int, int] = {}
    for node in layer.files:
        places[id(node)] = _renew(node, moved)

    def place(node: Node) -> Placed:
        return Placed(places[id(node)], node.fragment, node.fragment_offset)

    fragments = [Fragment(*moved[start]) for start, _ in layer.fragments]
    write_tables(file, 0, layer.root, place, fragments, encoding)


def _renew(node: Node, moved: dict[int, _Stored]) -> int:
    """Give a file the sizes of its new blocks; return the place of the first one."""
    place, start, sizes = node.start, 0, []
    for stored in node.blocks:
        if stored:
            first, size = moved[place]
            start = start or first
            sizes.append(size)
        else:
            sizes.append(0)
        place += stored & ~STORED_DATA
    node.blocks = tuple(sizes)
    return start
