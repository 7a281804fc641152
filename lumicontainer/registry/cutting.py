"""Cut an image into blobs that do not move when other parts of it change.

A cut is where a layer's data begin or end, as the image records, and where the data have one of a
few byte sequences. Compressed data have these every 2 MiB on average. The rule looks at nothing but
the bytes after the last cut, so that two images with the same data have the same blobs, wherever
the data are.
"""

import hashlib
import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import NamedTuple

from lumicontainer.image import digests

LEAST, MOST = 1 << 20, 64 << 20
"""The bytes of a blob, but for the ends of layers."""
_SMALLEST = 64 << 10
"""A layer that ends earlier shares its blob with the next one."""
_MARK = re.compile(rb"\xC0\xDE[\x00-\x07]")
_MARK_SIZE = 3
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
    cuts = _cuts(file, size, digests.recorded_bounds(file))
    return [(begin, end - begin) for begin, end in pairwise(cuts)]


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


def _cuts(file: int, size: int, bounds: list[int]) -> Iterator[int]:
    """Yield the first byte of each blob, and the end of the image."""
    at, ahead = 0, sorted(each for each in bounds if each < size)[::-1]
    yield 0
    while at < size:
        while ahead and ahead[-1] < at + _SMALLEST:
            ahead.pop()
        end = min(at + MOST, size, *ahead[-1:])
        at = _next_mark(file, at + LEAST, end)
        yield at


def _next_mark(file: int, begin: int, end: int) -> int:
    """Return the first mark between two bytes of a file, or ``end``."""
    for place in range(begin, end, _PIECE):
        length = min(_PIECE + _MARK_SIZE - 1, end - place)
        if mark := _MARK.search(os.pread(file, length, place)):
            return place + mark.start()
    return end
