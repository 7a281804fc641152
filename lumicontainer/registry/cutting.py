"""Cut an image into blobs that do not move when other parts of it change.

A blob ends where a layer's data begin or end, as the image records, and before and after a large
file. Between these, pieces are taken together, each the data of a file or a block that holds the
ends of files: a blob ends where the bytes before a piece have the lowest checksum within ``REACH``
pieces on both sides. What is further away does not matter, so that two images with the same data
have the same blobs, wherever the data are, and a file that is missing costs the blob that had it.
Most files are small, so that a blob has few bytes where many files are, and many where few are. In
a file whose tables cannot be read, a few byte sequences stand for the begins of pieces.
"""

import hashlib
import os
import re
import zlib
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, pairwise
from pathlib import Path
from typing import NamedTuple

from lumicontainer.errors import InputError
from lumicontainer.image import digests, sif
from lumicontainer.image.assembly.assemble import data_ranges
from lumicontainer.image.assembly.reader import Squashfs, read_squashfs

REACH = 12
"""A blob has at least as many pieces but at the ends of layers, and twice as many on average."""
LARGE, MOST = 2 << 20, 32 << 20
"""The bytes of a file that shares no blob, and of the largest blob."""
_SMALLEST = 16 << 10
"""A layer that ends earlier shares its blob with the next one."""
_MARK = re.compile(rb"\xC0\xDE")
_MARK_SIZE = 2
_APART = 16 << 10
"""The fewest bytes from one of these to the next."""
_SEEN = 32
"""The bytes before a place that decide whether a blob ends there."""
_PIECE = 1 << 20


Range = tuple[int, int]
"""An offset and a size."""


class Piece(NamedTuple):
    """Hold a range of an image, and the sha256 of its bytes."""

    offset: int
    size: int
    sha256: str

    @property
    def digest(self) -> str:
        """Return the digest as registries write it."""
        return f"sha256:{self.sha256}"


class CutImage(NamedTuple):
    """Hold the blobs of an image, which are its bytes in their order."""

    pieces: tuple[Piece, ...]
    size: int
    sha256: str


def cut_ranges(file: int) -> list[Range]:
    """Return the range of each blob of an open image."""
    size = os.fstat(file).st_size
    return _ranges(file, _find_places(file, size), 0, size)


def cut_image(file: int) -> CutImage:
    """Return the blobs of an open image; every byte is read."""
    with ThreadPoolExecutor(1) as pool:
        size = os.fstat(file).st_size
        sha256 = pool.submit(digests.of_range, file, 0, size)
        return CutImage(_hash_ranges(file, cut_ranges(file)), size, sha256.result())


def cut_layer(file: int) -> tuple[Piece, ...]:
    """Return the blobs of the data of a layer, an open squashfs: an image of it has the same.

    Every byte of the data is read. Raises ``InputError`` for a file that is not a squashfs.
    """
    places = _places_of(read_squashfs(_path_of(file)))
    if not places.bounds:
        return ()
    ranges = _ranges(file, places, places.bounds[0], places.bounds[-1])
    return _hash_ranges(file, ranges)


def _hash_ranges(file: int, ranges: Sequence[Range]) -> tuple[Piece, ...]:
    with ThreadPoolExecutor(_threads()) as pool:
        hashed = pool.map(lambda each: digests.of_range(file, *each), ranges)
        return tuple(Piece(*each, sha) for each, sha in zip(ranges, hashed, strict=True))


def hash_range(file: int, offset: int, size: int) -> str:
    """Return the digest of a range of an open file, as registries write it."""
    return f"sha256:{digests.of_range(file, offset, size)}"


def digest_of_bytes(content: bytes) -> str:
    """Return the digest of bytes, as registries write it."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _threads() -> int:
    return len(os.sched_getaffinity(0)) + 1


def _path_of(file: int) -> Path:
    return Path(f"/proc/self/fd/{file}")


class _Places(NamedTuple):
    """Hold where a blob may end, and where one must end."""

    begins: Sequence[int]
    bounds: Sequence[int]


def _ranges(file: int, places: _Places, begin: int, end: int) -> list[Range]:
    cuts = pairwise(_cuts(file, places, begin, end))
    return [(one, other - one) for one, other in cuts]


def _cuts(file: int, places: _Places, at: int, size: int) -> Iterator[int]:
    """Yield the first byte of each blob from ``at`` on, and the end ``size``."""
    begins = places.begins
    yield at
    for end in [*(each for each in places.bounds if each <= size - _SMALLEST), size]:
        if end <= at or (end < at + _SMALLEST and end < size):
            continue
        first, last = bisect_left(begins, at), bisect_left(begins, end)
        inner = begins[first + REACH : max(0, last - REACH + 1)]
        for cut in (*_lowest(file, inner), end):
            yield from range(at + MOST, cut, MOST)
            yield cut
            at = cut


def _lowest(file: int, places: Sequence[int]) -> list[int]:
    """Return the places with the lowest checksum of ``REACH`` on both sides, the first of equals.

    It takes linear time.
    """
    lowest, waiting = [], list[_Place]()
    for number, place in enumerate(places):
        own = zlib.crc32(os.pread(file, _SEEN, place - _SEEN))
        while waiting and waiting[-1].checksum > own:
            last = waiting.pop()
            if last.is_lowest and number - last.number >= REACH:
                lowest.append(last.number)
        is_lowest = not waiting or number - waiting[-1].number >= REACH
        waiting.append(_Place(number, own, is_lowest))
    lowest += (each.number for each in waiting if each.is_lowest)
    return [places[each] for each in sorted(lowest)]


class _Place(NamedTuple):
    number: int
    checksum: int
    is_lowest: bool
    """Whether no place before it within reach has a checksum as low."""


def _find_places(file: int, size: int) -> _Places:
    bounds, path = digests.recorded_bounds(file), _path_of(file)
    try:
        root = sif.root(path)
        squashfs = read_squashfs(path, root.offset, size=root.size)
    except InputError:
        return _Places(list(_marks(file, size)), bounds)
    places = _places_of(squashfs)
    return places._replace(bounds=sorted({*bounds, *places.bounds}))


def _places_of(squashfs: Squashfs) -> _Places:
    """Return the places in the data, which begin at the first bound and end at the last one."""
    offset = squashfs.offset
    files = [(offset + begin, offset + end) for begin, end in data_ranges(squashfs)]
    large = [each for each in files if each[1] - each[0] >= LARGE]
    whole = [files[0][0], max(end for _, end in files)] if files else []
    bounds = sorted({*whole, *chain.from_iterable(large)})
    return _Places([begin for begin, _ in files], bounds)


def _marks(file: int, size: int) -> Iterator[int]:
    """Yield the places of a few byte sequences."""
    last = 0
    for begin in range(0, size, _PIECE):
        for mark in _MARK.finditer(os.pread(file, _PIECE + _MARK_SIZE - 1, begin)):
            if begin + mark.start() >= last + _APART:
                last = begin + mark.start()
                yield last
