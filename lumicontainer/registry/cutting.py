"""Cut an image into blobs that do not move when other parts of it change.

A blob ends where a layer's data begin or end, as the image records, and before and after a large
file. Between these, files and the blocks that hold the ends of files are taken together: a blob
ends where the bytes before a file's data have the lowest checksum within ``REACH`` bytes on both
sides. What is further away does not matter, so that two images with the same data have the same
blobs, wherever the data are, and a file that is missing costs the blob that had it. In a file whose
tables cannot be read, a few byte sequences stand for the begins of files.
"""

import hashlib
import os
import re
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, pairwise
from pathlib import Path
from typing import NamedTuple

from lumicontainer.errors import InputError
from lumicontainer.image import digests, sif
from lumicontainer.image.assembly.assemble import data_ranges
from lumicontainer.image.assembly.reader import read_squashfs

REACH = 640 << 10
"""A blob has at least as many bytes but at the ends of layers, and twice as many on average."""
LARGE, MOST = 2 << 20, 32 << 20
"""The bytes of a file that shares no blob, and of the largest blob."""
_SMALLEST = 16 << 10
"""A layer that ends earlier shares its blob with the next one."""
_MARK = re.compile(rb"\xC0\xDE")
_MARK_SIZE = 2
_APART = 1 << 10
"""The fewest bytes from one of these to the next."""
_SEEN = 32
"""The bytes before a place that decide whether a blob ends there."""
_PIECE = 1 << 20


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


def cut_ranges(file: int) -> list[tuple[int, int]]:
    """Return the offset and the size of each blob of an open image."""
    size = os.fstat(file).st_size
    return [(begin, end - begin) for begin, end in pairwise(_cuts(file, size))]


def cut_image(file: int) -> CutImage:
    """Return the blobs of an open image; every byte is read."""
    with ThreadPoolExecutor(_threads()) as pool:
        size = os.fstat(file).st_size
        sha256 = pool.submit(digests.of_range, file, 0, size)
        ranges = cut_ranges(file)
        hashed = pool.map(lambda each: digests.of_range(file, *each), ranges)
        pieces = tuple(Piece(*each, sha) for each, sha in zip(ranges, hashed, strict=True))
        return CutImage(pieces, size, sha256.result())


def hash_range(file: int, offset: int, size: int) -> str:
    """Return the digest of a range of an open file, as registries write it."""
    return f"sha256:{digests.of_range(file, offset, size)}"


def digest_of_bytes(content: bytes) -> str:
    """Return the digest of bytes, as registries write it."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _threads() -> int:
    return len(os.sched_getaffinity(0)) + 1


def _cuts(file: int, size: int) -> Iterator[int]:
    """Yield the first byte of each blob, and the end of the image."""
    places, bounds = _places(file, size)
    at = 0
    yield at
    for end in [*(each for each in bounds if each <= size - _SMALLEST), size]:
        if end <= at or (end < at + _SMALLEST and end < size):
            continue
        inner = places[bisect_left(places, at + REACH) : bisect_right(places, end - REACH)]
        for cut in (*_lowest(file, inner), end):
            yield from range(at + MOST, cut, MOST)
            yield cut
            at = cut


def _lowest(file: int, places: Iterable[int]) -> list[int]:
    """Return the places with the lowest checksum within ``REACH`` bytes, the first of equal ones.

    It takes linear time.
    """
    lowest, waiting = [], list[_Place]()
    for place in places:
        own = zlib.crc32(os.pread(file, _SEEN, place - _SEEN))
        while waiting and waiting[-1].checksum > own:
            last = waiting.pop()
            if last.is_lowest and place - last.place >= REACH:
                lowest.append(last.place)
        is_lowest = not waiting or place - waiting[-1].place >= REACH
        waiting.append(_Place(place, own, is_lowest))
    return sorted([*lowest, *(each.place for each in waiting if each.is_lowest)])


class _Place(NamedTuple):
    place: int
    checksum: int
    is_lowest: bool
    """Whether no place before it within reach has a checksum as low."""


def _places(file: int, size: int) -> tuple[Sequence[int], Sequence[int]]:
    """Return where a blob may end, and where one must end."""
    bounds = digests.recorded_bounds(file)
    path = Path(f"/proc/self/fd/{file}")
    try:
        root = sif.root(path)
        ranges = data_ranges(read_squashfs(path, root.offset, size=root.size))
    except InputError:
        return list(_marks(file, size)), bounds
    files = [(root.offset + begin, root.offset + end) for begin, end in ranges]
    large = [each for each in files if each[1] - each[0] >= LARGE]
    begins = [begin for begin, _ in files]
    return begins, sorted({*bounds, *begins[:1], *chain.from_iterable(large)})


def _marks(file: int, size: int) -> Iterator[int]:
    """Yield the places of a few byte sequences."""
    last = 0
    for begin in range(0, size, _PIECE):
        for mark in _MARK.finditer(os.pread(file, _PIECE + _MARK_SIZE - 1, begin)):
            if begin + mark.start() >= last + _APART:
                last = begin + mark.start()
                yield last
