"""Open a layer of an image: a tar archive, alone or compressed."""

import gzip
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from lumicontainer.errors import HostError, Problem
from lumicontainer.sandbox.tree.foreign.archive import Stream
from lumicontainer.sandbox.tree.foreign.refusal import refusal
from lumicontainer.system import process

_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
"""The first bytes of a file compressed with gzip (RFC 1952) or Zstandard (RFC 8878)."""
_ALWAYS, _TIMES = 256 << 20, 64
"""The layers of an image may become as many bytes, and as many times their size. Layers of programs
become 2 to 5 times larger; gzip can make 1,000 times its bytes of nothing, and Zstandard more."""


class Allowance:
    """Count down the bytes that layers may become together: an image may name one many times."""

    def __init__(self, layers: Iterable[Path]) -> None:
        self._left = _ALWAYS + _TIMES * sum(each.stat().st_size for each in set(layers))

    def take(self, size: int) -> None:
        """Note that bytes have been read; raise ``InputError`` if they are too many."""
        self._left -= size
        if self._left < 0:
            raise refusal("", f"its layers become more than {_TIMES} times larger")


class _Bounded:
    """Read a stream within an allowance."""

    def __init__(self, stream: Stream, allowance: Allowance) -> None:
        self._stream, self._allowance = stream, allowance

    def read(self, size: int, /) -> bytes:
        """Return the next bytes; raise ``InputError`` for broken or too much data."""
        try:
            data = self._stream.read(size)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise refusal("", f"a layer cannot be decompressed: {error}") from error
        self._allowance.take(len(data))
        return data


@contextmanager
def open_layer(path: Path, allowance: Allowance) -> Iterator[Stream]:
    """Yield the bytes of a layer's archive."""
    with path.open("rb") as file:
        start = file.read(len(_ZSTD))
        file.seek(0)
        if start == _ZSTD:
            with _decompress(path) as stream:
                yield _Bounded(stream, allowance)
        elif start.startswith(_GZIP):
            with gzip.open(file) as unzipped:
                yield _Bounded(unzipped, allowance)
        else:
            yield _Bounded(file, allowance)


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
