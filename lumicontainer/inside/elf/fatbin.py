"""Read the GPU architectures of a library or program from the bundles in section .hip_fatbin.

The form of bundles, also compressed ones: LLVM, Clang Offload Bundler. The processors of generic
targets: LLVM, User Guide for AMDGPU Backend.
"""

import ctypes
import mmap
import re
import struct
import sys
import zlib
from collections.abc import Iterator
from typing import NamedTuple, Union

from .reader import UnreadableError, tables

Data = Union[mmap.mmap, bytes]

SECTION = b".hip_fatbin"
ANY = "amdgcnspirv"  # SPIR-V, which is compiled for the present GPU when it is loaded
_PLAIN, _COMPRESSED = b"__CLANG_OFFLOAD_BUNDLE__", b"CCOB"
_BEGIN = re.compile(b"|".join((_PLAIN, _COMPRESSED)))
_ROW = struct.Struct("<QQQ")
_LONGEST = 1024  # the most characters of a triple, and the most triples in a bundle
_TRIPLE = re.compile(
    r"(?:hip|hipv4)-(?:amdgcn|spirv64)-amd-amdhsa-[^-]*-(?P<target>[^:]+)(?P<features>.*)"
)
_HEADERS = {1: struct.Struct("<4sHHIQ"), 2: struct.Struct("<4sHHIIQ"), 3: struct.Struct("<4sHHQQQ")}
_ZLIB, _ZSTD = 0, 1
_LIBZSTD = "libzstd.so.1"
_DAMAGED = "a compressed bundle in its section .hip_fatbin is damaged"
_TABLE = 1 << 16  # bytes of a bundle to unpack: its table is at the start
_PACKED = 1 << 20  # bytes of a compressed bundle to read for its table: RCCL's has 350 MB


class Code(NamedTuple):
    """The target of a piece of code: ``gfx90a``, and its settings: ``xnack+``."""

    target: str
    features: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ":".join((self.target, *self.features))

    def runs_on(self, architecture: str) -> bool:
        """Return whether GPUs of an architecture run it with default settings."""
        # XNACK is off unless HSA_XNACK=1 is set, and GPUs of data centres have ECC on. The generic
        # targets gfx9-generic and gfx9-4-generic are not for gfx90a.
        unfit = {"xnack+", "sramecc-"} & set(self.features)
        return self.target == ANY or (self.target == architecture and not unfit)


def codes(path: str) -> tuple[Code, ...]:
    """Return the distinct targets of a file's code for GPUs.

    Raises ``UnreadableError`` if it is not an ELF file for x86-64, or if a bundle is damaged.
    """
    with tables(path) as file:
        place = file.section(SECTION)
        matches = map(_TRIPLE.fullmatch, _triples(file.data, *place) if place else ())
        every = [(m["target"], tuple(filter(None, m["features"].split(":")))) for m in matches if m]
    return tuple(Code(*each) for each in dict.fromkeys(every))


def _triples(data: Data, begin: int, size: int) -> Iterator[str]:
    """Yield the triple of each entry of each bundle in a section."""
    end = begin + size
    bundles = 0
    while match := _BEGIN.search(data, begin, end):
        begin = match.start()
        if match[0] == _PLAIN:
            triples, length = _plain(data, begin)
        else:
            triples, length = _decompress(data, begin, end)
        # Code may contain the magic bytes of a bundle.
        bundles += bool(length)
        yield from triples
        begin += length or len(match[0])
    if size and not bundles:
        raise UnreadableError(f"no bundle in its section {SECTION.decode()}")


def _plain(data: Data, begin: int) -> tuple[list[str], int]:
    """Return the triples and the length of a bundle; 0 as length if it is not a bundle."""
    try:
        (count,) = struct.unpack_from("<Q", data, begin + len(_PLAIN))
        if count > _LONGEST:
            return [], 0
        place = begin + len(_PLAIN) + 8
        triples, end = [], place
        for _ in range(count):
            offset, size, length = _ROW.unpack_from(data, place)
            text = data[place + _ROW.size : place + _ROW.size + length]
            if length > _LONGEST or len(text) < length:
                return [], 0
            triples += [text.decode("ascii")] if size else []
            place += _ROW.size + length
            end = max(end, place, begin + offset + size)
    except (struct.error, UnicodeDecodeError):
        return [], 0
    return triples, end - begin


def _decompress(data: Data, begin: int, end: int) -> tuple[list[str], int]:
    header = _HEADERS.get(int.from_bytes(data[begin + 4 : begin + 6], "little"))
    if header is None or begin + header.size > end:
        return [], 0
    _, version, method, *sizes, _ = header.unpack_from(data, begin)
    if method not in (_ZLIB, _ZSTD):
        return [], 0
    # Version 1 has no length: the search for the next bundle continues after its header.
    length = sizes[0] if version > 1 else header.size
    if begin + length > end or (version > 1 and length <= header.size):
        return [], 0
    end = begin + length if version > 1 else end
    packed = data[begin + header.size : min(end, begin + _PACKED)]
    text = _unpack(packed, method)
    triples, table_end = _plain(text, 0) if text.startswith(_PLAIN) else ([], 0)
    if not table_end:
        raise UnreadableError(_DAMAGED)
    return triples, length


def _unpack(packed: bytes, method: int) -> bytes:
    if method == _ZSTD:
        return _of_zstd(packed)
    try:
        return zlib.decompressobj().decompress(packed, _TABLE)
    except zlib.error as error:
        raise UnreadableError(_DAMAGED) from error


class _Buffer(ctypes.Structure):
    """As ZSTD_inBuffer and ZSTD_outBuffer in zstd.h."""

    _fields_ = (
        ("start", ctypes.c_void_p),
        ("size", ctypes.c_size_t),
        ("position", ctypes.c_size_t),
    )


def _of_zstd(packed: bytes) -> bytes:
    """Unpack the start of a Zstandard bundle by libzstd, which dpkg needs too."""
    try:
        library = ctypes.CDLL(_LIBZSTD)
    except OSError as error:
        raise UnreadableError(f"reading its compressed bundles needs libzstd: {error}") from error
    library.ZSTD_createDStream.restype = ctypes.c_void_p
    library.ZSTD_decompressStream.restype = ctypes.c_size_t
    stream = ctypes.c_void_p(library.ZSTD_createDStream())
    target = ctypes.create_string_buffer(_TABLE)
    out = _Buffer(ctypes.addressof(target), _TABLE, 0)
    held = ctypes.create_string_buffer(packed, len(packed))
    source = _Buffer(ctypes.addressof(held), len(packed), 0)
    try:
        while out.position < out.size and source.position < source.size:
            left = library.ZSTD_decompressStream(stream, ctypes.byref(out), ctypes.byref(source))
            if library.ZSTD_isError(ctypes.c_size_t(left)):
                raise UnreadableError(_DAMAGED)
            if not left:
                break
    finally:
        library.ZSTD_freeDStream(stream)
    return target.raw[: out.position]


def main() -> None:
    """Print the targets of each file on the command line, one line a file."""
    for path in sys.argv[1:]:
        sys.stdout.write(" ".join(map(str, codes(path))) + "\n")


if __name__ == "__main__":
    main()
