"""Assemble one squashfs from layers: their data blocks as they are, and new tables."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import BinaryIO, NamedTuple

from lumicontainer.errors import InputError, Problem
from lumicontainer.image.assembly import layout, tree
from lumicontainer.image.assembly.codecs import CODECS
from lumicontainer.image.assembly.content import Files, read_fragment
from lumicontainer.image.assembly.layout import NOTHING, STORED_DATA, SUPERBLOCK_SIZE
from lumicontainer.image.assembly.memory import garbage_collector_off
from lumicontainer.image.assembly.reader import Fragment, Squashfs, read_squashfs
from lumicontainer.image.assembly.tree import Node
from lumicontainer.image.assembly.writer import Encoding, OwnersError, Placed, write_tables
from lumicontainer.system.files.copying import copy_range

Reached = Callable[[int], None]
Range = tuple[int, int]
"""The first byte and the one after the last."""


class Move(NamedTuple):
    """Hold a range of bytes that is copied from the byte ``begin`` to the byte ``place``."""

    begin: int
    """It counts from the start of the layer, and ``place`` from the start of the new squashfs."""
    place: int
    size: int


Announce = Callable[[Sequence[Move]], None]
_STEP = 64 << 20
"""The most bytes that are copied between two calls of ``reached``."""


class Source(NamedTuple):
    """Hold where a squashfs is."""

    path: Path
    offset: int = 0
    size: int | None = None
    """The bytes that it may have; it may reach the end of the file if none are given."""

    def read(self, number: int) -> Squashfs:
        """Return the squashfs as the layer ``number``; raise ``InputError`` if it is damaged."""
        return read_squashfs(self.path, self.offset, number, self.size)


def assemble_squashfs(
    sources: Sequence[Source],
    target: Path,
    offset: int,
    time: int,
    reached: Reached = lambda _: None,
) -> int:
    """Write the squashfs of the merged layers at the byte ``offset`` of a file; return its size.

    ``sources`` are the layers, the lowest first, with one size of blocks and one compression. Data
    that the merged tree does not have are not copied. ``time`` is the squashfs's own, in seconds
    since 1970; ``reached`` gets the number of bytes copied so far. Raises ``InputError`` if a layer
    is damaged or does not fit the others.
    """
    layers = [each.read(number) for number, each in enumerate(sources)]
    with target.open("r+b") as file:
        return Assembly(file, offset, time, reached).finish(layers)


class Assembly:
    """Write the squashfs of merged layers into an open file, at its byte ``offset``.

    See ``assemble_squashfs``. The data of the lowest layer can be copied before the others exist.
    ``bound`` gets the byte of the file where the data of each layer begin, and where all end.
    """

    def __init__(
        self,
        file: BinaryIO,
        offset: int,
        time: int,
        reached: Reached = lambda _: None,
        bound: Reached = lambda _: None,
    ) -> None:
        self._file, self._offset, self._time, self._bound = file, offset, time, bound
        self._data = _Data(file, offset, reached)
        self._lowest: list[Squashfs] = []
        self.files: Files | None = None
        """The files of the image, when it is finished."""

    @garbage_collector_off()
    def begin(
        self, lowest: Squashfs, replaced: Iterable[str], announce: Announce = lambda _: None
    ) -> None:
        """Copy the data of the lowest layer without those at the paths that others replace.

        ``announce`` gets the ranges before they are copied.
        """
        for path in replaced:
            tree.remove(lowest.root, path)
        self._lowest = [lowest]
        merge_layers(self._lowest)
        self._bound(self._data.end)
        self._data.copy(lowest, announce)

    @garbage_collector_off()
    def finish(self, layers: Sequence[Squashfs]) -> int:
        """Add the other layers, write the tables, and return the size."""
        begun = [node for layer in self._lowest for node in layer.files if node.links]
        for node in begun:
            node.links = 0
        every = [*self._lowest, *layers]
        encoding = _common_encoding(every, self._time)
        root = merge_layers(every)
        if not all(node.links for node in begun):
            raise ValueError("a layer replaces files whose data were copied")
        data, file = self._data, self._file
        for layer in layers:
            self._bound(data.end)
            data.copy(layer)
        self._bound(data.end)
        self.files = Files(root, every)
        file.truncate(data.end)
        file.seek(data.end)
        try:
            return write_tables(file, self._offset, root, data.place, data.fragments, encoding)
        except OwnersError as error:
            what, hint = f"the image has {error}", "let the layer chown its files to fewer owners"
            raise InputError(Problem(what, str(every[error.layer].path), hint=hint)) from error


def _common_encoding(layers: Sequence[Squashfs], time: int) -> Encoding:
    first = layers[0].superblock
    for layer in layers:
        own = layer.superblock
        if (own.compressor, own.block_size) != (first.compressor, first.block_size):
            what = "the layers have different compressions or sizes of blocks"
            raise InputError(Problem(what, str(layer.path), hint="rebuild them"))
    return Encoding(first.compressor, first.block_size, time)


def merge_layers(layers: Sequence[Squashfs]) -> Node:
    """Return the tree of layers, the lowest first; the nodes of the layers become part of it."""
    root = layers[0].root
    tree.remove_whiteouts(root)
    for layer in layers[1:]:
        tree.apply(root, layer.root)
    tree.count_links(root)
    return root


class _Data:
    """Copy the data of layers into a file, and know where each file's data are in it."""

    def __init__(self, file: BinaryIO, begin: int, reached: Reached) -> None:
        self.end = begin + SUPERBLOCK_SIZE
        """The byte of the file after the data."""
        self.fragments: list[Fragment] = []
        self._file, self._begin, self._reached = file, begin, reached
        self._copied = 0
        self._moves: list[Sequence[Move]] = []
        """By layer: the copied ranges, in their order."""
        self._tails: dict[tuple[int, int], tuple[int, dict[int, int]]] = {}
        """By layer and fragment: the new number, and the new offsets of its parts if they move."""

    def copy(self, layer: Squashfs, announce: Announce = lambda _: None) -> None:
        """Copy what the merged tree uses of the next layer."""
        number = len(self._moves)
        used = [node for node in layer.files if node.links]
        block_size = layer.superblock.block_size
        tails = _tails(used, block_size)
        dead = _tails((node for node in layer.files if not node.links), block_size)
        whole = [each for each in sorted(tails) if dead.get(each, set()) <= tails[each]]
        fragments = [layer.fragments[each] for each in whole]
        moves = list(self._plan([*_blocks(used), *map(_place, fragments)]))
        announce(moves)
        self._copy_ranges(layer, moves)
        self._moves.append(moves)
        for each, (start, stored) in zip(whole, fragments, strict=True):
            self._tails[number, each] = len(self.fragments), {}
            self.fragments.append(Fragment(self._moved(number, start), stored))
        for each in sorted(tails.keys() - set(whole)):
            self._tails[number, each] = len(self.fragments), self._rebuild(layer, each, tails[each])

    def place(self, node: Node) -> Placed:
        """Return where the data of a file are."""
        start = self._moved(node.layer, node.start) if any(node.blocks) else 0
        if node.fragment == NOTHING:
            return Placed(start, NOTHING, 0)
        number, offsets = self._tails[node.layer, node.fragment]
        offset = node.fragment_offset
        return Placed(start, number, offsets.get(offset, offset))

    def _plan(self, ranges: Iterable[Range]) -> Iterator[Move]:
        """Yield where the ranges of the next layer come, one after the other."""
        place = self.end - self._begin
        for begin, end in _joined(ranges):
            yield Move(begin, place, end - begin)
            place += end - begin

    def _copy_ranges(self, layer: Squashfs, moves: Iterable[Move]) -> None:
        with layer.path.open("rb", buffering=0) as source:
            for move in moves:
                for done in range(0, move.size, _STEP):
                    size, at = min(_STEP, move.size - done), layer.offset + move.begin + done
                    copy_range(source.fileno(), at, self._file.fileno(), self.end, size)
                    self._advance(size)

    def _moved(self, layer: int, start: int) -> int:
        moves = self._moves[layer]
        move = moves[bisect_right(moves, start, key=itemgetter(0)) - 1]
        return start + move.place - move.begin

    def _rebuild(self, layer: Squashfs, number: int, parts: set[Range]) -> dict[int, int]:
        """Write a fragment again without the ends of removed files; return the new offsets."""
        content, kept, offsets = read_fragment(layer, number), bytearray(), {}
        for begin, end in sorted(parts):
            offsets[begin] = len(kept)
            kept += content[begin:end]
            if len(kept) > layer.superblock.block_size:
                raise layout.damaged(layer.path, "ends of files overlap")
        packed, mark = CODECS[layer.superblock.compressor].compress(bytes(kept)), 0
        if len(packed) >= len(kept):
            packed, mark = bytes(kept), STORED_DATA
        self.fragments.append(Fragment(self.end - self._begin, len(packed) | mark))
        self._file.seek(self.end)
        self._file.write(packed)
        self._file.flush()
        self._advance(len(packed))
        return offsets

    def _advance(self, size: int) -> None:
        self.end += size
        self._copied += size
        self._reached(self._copied)


def data_ranges(layer: Squashfs) -> list[Range]:
    """Return where the data of each file are, and each block with the ends of files, in order."""
    return sorted({*_blocks(layer.files), *map(_place, layer.fragments)})


def _tails(files: Iterable[Node], block_size: int) -> dict[int, set[Range]]:
    """Return the parts of each fragment that are ends of ``files``."""
    tails: defaultdict[int, set[Range]] = defaultdict(set)
    for node in files:
        if node.fragment != NOTHING:
            tails[node.fragment].add(node.tail(block_size))
    return dict(tails)


def _blocks(files: Iterable[Node]) -> Iterator[Range]:
    """Yield the places of the blocks of each file."""
    for node in files:
        if size := sum(each & ~STORED_DATA for each in node.blocks):
            yield node.start, node.start + size


def _place(fragment: Fragment) -> Range:
    return fragment.start, fragment.start + (fragment.stored & ~STORED_DATA)


def _joined(ranges: Iterable[Range]) -> Iterator[Range]:
    """Yield the ranges in order; those that touch or overlap become one."""
    ordered = sorted(ranges)
    if not ordered:
        return
    begin, end = ordered[0]
    for first, last in ordered[1:]:
        if first > end:
            yield begin, end
            begin, end = first, last
        else:
            end = max(end, last)
    yield begin, end
