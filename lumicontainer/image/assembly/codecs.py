"""Compress and decompress the blocks of a squashfs."""

import sys
import zlib
from collections.abc import Callable, Mapping
from typing import NamedTuple

from lumicontainer.image.assembly.layout import GZIP, ZSTD

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


class Codec(NamedTuple):
    """Hold the functions of one compression."""

    compress: Callable[[bytes], bytes]
    decompress: Callable[[bytes, int], bytes]
    """Takes the most bytes that may come out; raises ``ValueError`` if there are more."""


_LEVEL = 3
"""The level of mksquashfs in ``image.squashfs``."""


def _inflate(data: bytes, most: int) -> bytes:
    reader = zlib.decompressobj()
    try:
        content = reader.decompress(data, most + 1)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    return _require_end(content, most, complete=reader.eof)


def _unpack_zstd(data: bytes, most: int) -> bytes:
    reader = zstd.ZstdDecompressor()
    try:
        content = reader.decompress(data, most + 1)
    except zstd.ZstdError as error:
        raise ValueError(str(error)) from error
    return _require_end(content, most, complete=reader.eof)


def _require_end(content: bytes, most: int, *, complete: bool) -> bytes:
    if len(content) > most or not complete:
        raise ValueError(f"expected a block of at most {most} bytes")
    return content


CODECS: Mapping[int, Codec] = {
    GZIP: Codec(lambda data: zlib.compress(data, _LEVEL), _inflate),
    ZSTD: Codec(lambda data: zstd.compress(data, _LEVEL), _unpack_zstd),
}
"""The compressions that can be read, by their numbers in a superblock."""
