"""Open a layer of an image: a tar archive, alone or compressed."""

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from lumicontainer.build.tree.foreign.archive import Stream
from lumicontainer.build.tree.foreign.refusal import refusal
from lumicontainer.errors import HostError, Problem
from lumicontainer.system import process

_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
"""The first bytes of a file compressed with gzip (RFC 1952) or Zstandard (RFC 8878)."""
_ALWAYS, _TIMES = 256 << 20, 64
"""A layer may become as many bytes, and as many times its size. Layers of programs become 2 to 5
times larger; gzip can make 1,000 times its bytes of nothing, and Zstandard more."""


class _Bounded:
    """Read a stream up to a number of bytes."""

    def __init__(self, stream: Stream, most: int) -> None:
        self._stream, self._left = stream, most

    def read(self, size: int, /) -> bytes:
        """Return the next bytes; raise ``InputError`` for broken or too much data."""
        try:
            data = self._stream.read(size)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise refusal("", f"a layer cannot be decompressed: {error}") from error
        self._left -= len(data)
        if self._left < 0:
            raise refusal("", f"a layer becomes more than {_TIMES} times larger")
        return data


@contextmanager
def open_layer(path: Path) -> Iterator[Stream]:
    """Yield the bytes of a layer's archive."""
    most = _ALWAYS + _TIMES * path.stat().st_size
    with path.open("rb") as file:
        start = file.read(len(_ZSTD))
        file.seek(0)
        if start == _ZSTD:
            with _decompress(path) as stream:
                yield _Bounded(stream, most)
        elif start.startswith(_GZIP):
            with gzip.open(file) as unzipped:
                yield _Bounded(unzipped, most)
        else:
            yield _Bounded(file, most)


@contextmanager
def _decompress(path: Path) -> Iterator[IO[bytes]]:
    """Yield what is in a file of Zstandard, which Python reads only since 3.14."""
    if process.find("zstd") is None:
        what = "cannot unpack a layer of the image: zstd not found"
        raise HostError(Problem(what, hint="install the package zstd"))
    try:
        # By itself it takes windows of 128 MiB at most: as much memory as it uses.
        with process.printing(["zstd", "--decompress", "--quiet", "--stdout", str(path)]) as stream:
            yield stream
    except process.ProgramError as error:
        raise refusal("", f"a layer cannot be decompressed: {error.problems[0].why}") from error
