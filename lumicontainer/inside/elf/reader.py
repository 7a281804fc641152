"""Read shared libraries and programs (ELF) as the dynamic loader does, without loading them.

64-bit little-endian files for x86-64 alone: as on LUMI. Structures and
numbers: System V ABI, gABI chapter 5 and its supplement for AMD64; versions of symbols: Linux
Standard Base, Core, chapter "Symbol Versioning".
"""

from __future__ import annotations

import contextlib
import itertools
import mmap
import re
import struct
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

MAGIC = b"\x7fELF"
_CLASS_64, _LITTLE_ENDIAN, _X86_64 = 2, 1, 62
_LOAD, _DYNAMIC = 1, 2
_SECTION_SYMBOLS = 11
_NEEDED, _HASH, _STRTAB, _SYMTAB, _SONAME, _RPATH, _RUNPATH = 1, 4, 5, 6, 14, 15, 29
_VERSYM, _VERDEF, _VERDEFNUM = 0x6FFFFFF0, 0x6FFFFFFC, 0x6FFFFFFD
_VERNEED, _VERNEEDNUM = 0x6FFFFFFE, 0x6FFFFFFF
_BASE_FLAG, _WEAK_FLAG = 1, 2
_GLOBAL, _WEAK, _UNIQUE = 1, 2, 10
_DEFAULT, _PROTECTED = 0, 3
_HIDDEN_BIT = 0x8000

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SHORTEST = _HEADER.size
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_ENTRY = struct.Struct("<qQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_FILE_NEEDED = struct.Struct("<HHIII")
_VERSION_NEEDED = struct.Struct("<IHHII")
_VERSION_DEFINED = struct.Struct("<HHHHIII")

_OPENED = re.compile(rb"(?<=\0)/[\w./+-]+/lib[\w.+-]+\.so(?:\.[0-9]+)*(?=\0)")


class UnreadableError(Exception):
    """Report why a file cannot be read as a library or program for x86-64."""


class Symbol(NamedTuple):
    """A symbol that a file needs; ``file`` is the library that should define it, if it is named."""

    name: str
    version: str = ""
    file: str = ""
    weak: bool = False  # whether the file works without it

    def __str__(self) -> str:
        return f"{self.name}@{self.version}" if self.version else self.name


class Version(NamedTuple):
    """A version of symbols that a file needs of a library."""

    file: str
    name: str
    weak: bool = False


class Elf(NamedTuple):
    """The content of a file for the loader."""

    soname: str = ""
    needed: tuple[str, ...] = ()
    rpath: tuple[str, ...] = ()
    runpath: tuple[str, ...] = ()
    requires: tuple[Version, ...] = ()
    provides: tuple[str, ...] = ()  # the versions of its symbols, without its own name
    undefined: tuple[Symbol, ...] = ()
    # Its symbols as ``name``, and those with a version also as ``name@version``.
    defined: frozenset[str] = frozenset()


def read(path: str) -> Elf:
    """Read a file; raise ``UnreadableError`` for other formats, and ``OSError`` as open does."""
    with tables(path) as file:
        return file.elf()


def linked(path: str) -> Elf:
    """Read libraries and versions, without the symbols, which are most of a file."""
    with tables(path) as file:
        return file.linked()


def linked_file(file: BinaryIO) -> Elf:
    """Read an open file as ``linked`` does; raise ``UnreadableError`` as ``read`` does."""
    with _tables_of(file) as read:
        return read.linked()


@contextlib.contextmanager
def tables(path: str) -> Iterator[Tables]:
    """Open a file; raise ``UnreadableError`` here and in the block if it is damaged."""
    with open(path, "rb") as file, _tables_of(file) as read:
        yield read


@contextlib.contextmanager
def _tables_of(file: BinaryIO) -> Iterator[Tables]:
    file.seek(0)
    _check(file.read(_HEADER.size))
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            yield Tables(data)
        except (struct.error, LookupError, OverflowError, ValueError) as error:
            raise UnreadableError(f"it is damaged: {error}") from error


def find_opened(path: str) -> list[str]:
    """Return the absolute paths of libraries in a file's constants."""
    # They are the only trace of libraries that a file opens by dlopen.
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return sorted({match[0].decode() for match in _OPENED.finditer(data)})


def to_plain(elf: Elf) -> dict[str, Any]:
    """Return a file's description as plain data, for JSON."""
    return {**elf._asdict(), "defined": sorted(elf.defined)}


def elf_from_plain(data: dict[str, Any]) -> Elf:
    """Return the description from ``to_plain``'s data."""
    names = ("needed", "rpath", "runpath", "provides")
    return Elf(
        soname=data["soname"],
        **{name: tuple(data[name]) for name in names},
        requires=tuple(Version(*row) for row in data["requires"]),
        undefined=tuple(Symbol(*row) for row in data["undefined"]),
        defined=frozenset(data["defined"]),
    )


def _check(head: bytes) -> None:
    if head[:4] != MAGIC:
        raise UnreadableError("it is not an ELF file")
    if len(head) < SHORTEST:
        raise UnreadableError("it is cut short")
    machine = _HEADER.unpack(head)[2]
    if (head[4], head[5], machine) != (_CLASS_64, _LITTLE_ENDIAN, _X86_64):
        bits = 64 if head[4] == _CLASS_64 else 32
        raise UnreadableError(f"it is for another processor ({bits}-bit, machine {machine})")


class Tables:
    """Read the tables of one file, whose bytes are ``data``."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data = data
        self.header = _HEADER.unpack_from(data)
        segments = list(self._rows(_SEGMENT, self.header[5], self.header[10]))
        self.loaded = [(row[3], row[2], row[5]) for row in segments if row[0] == _LOAD]
        dynamic = next(((row[2], row[5]) for row in segments if row[0] == _DYNAMIC), (0, 0))
        rows = self._rows(_ENTRY, dynamic[0], dynamic[1] // _ENTRY.size)
        self.entries = list(itertools.takewhile(lambda row: row[0] != 0, rows))
        self.tags = dict(reversed(self.entries))

    def elf(self) -> Elf:
        """Return the whole description."""
        requires = dict(self._requires())
        names = {**dict(self._provides()), **{n: each.name for n, each in requires.items()}}
        undefined, defined = [], set()
        for name, (_, info, other, section, _, _), number in self._symbols():
            binding, version = info >> 4, names.get(number, "")
            if section == 0 and binding in (_GLOBAL, _WEAK):
                file = requires[number].file if number in requires else ""
                undefined.append(Symbol(name, version, file, binding == _WEAK))
            shown = binding in (_GLOBAL, _WEAK, _UNIQUE) and other & 3 in (_DEFAULT, _PROTECTED)
            if section != 0 and shown:
                defined |= {name, f"{name}@{version}"} if version else {name}
        return self.linked()._replace(undefined=tuple(undefined), defined=frozenset(defined))

    def linked(self) -> Elf:
        """Return the description without symbols."""
        return Elf(
            soname=self._string(_SONAME),
            needed=tuple(self._text(value) for tag, value in self.entries if tag == _NEEDED),
            rpath=_folders(self._string(_RPATH)),
            runpath=_folders(self._string(_RUNPATH)),
            requires=tuple(version for _, version in self._requires()),
            provides=tuple(name for _, name in self._provides()),
        )

    def section(self, name: bytes) -> tuple[int, int] | None:
        """Return the offset and the length of a section; None if there is none."""
        rows = list(self._rows(_SECTION, self.header[6], self.header[12]))
        names = rows[self.header[13]][4] if rows else 0
        for row in rows:
            start = names + row[0]
            if self.data[start : start + len(name) + 1] == name + b"\0":
                return row[4], row[5]
        return None

    def _rows(self, kind: struct.Struct, offset: int, count: int) -> Iterator[tuple[Any, ...]]:
        for number in range(count):
            yield kind.unpack_from(self.data, offset + number * kind.size)

    def _offset(self, address: int) -> int:
        for start, offset, size in self.loaded:
            if start <= address < start + size:
                return int(offset + address - start)
        raise ValueError(f"address {address:#x} is outside of all segments")

    def _text(self, index: int) -> str:
        start = self._offset(self.tags[_STRTAB]) + index
        return self.data[start : self.data.find(b"\0", start)].decode("utf-8", "replace")

    def _string(self, tag: int) -> str:
        return self._text(self.tags[tag]) if tag in self.tags else ""

    def _requires(self) -> Iterator[tuple[int, Version]]:
        """Yield the needed versions, each with its number in the table of symbols."""
        if _VERNEED not in self.tags:
            return
        offset = self._offset(self.tags[_VERNEED])
        for _ in range(self.tags[_VERNEEDNUM]):
            _, count, file, first, following = _FILE_NEEDED.unpack_from(self.data, offset)
            row = offset + first
            for _ in range(count):
                _, flags, number, name, after = _VERSION_NEEDED.unpack_from(self.data, row)
                weak = bool(flags & _WEAK_FLAG)
                yield number & ~_HIDDEN_BIT, Version(self._text(file), self._text(name), weak)
                row += after
            if not following:
                return
            offset += following

    def _provides(self) -> Iterator[tuple[int, str]]:
        """Yield the defined versions, each with its number in the table of symbols."""
        if _VERDEF not in self.tags:
            return
        offset = self._offset(self.tags[_VERDEF])
        for _ in range(self.tags[_VERDEFNUM]):
            row = _VERSION_DEFINED.unpack_from(self.data, offset)
            _, flags, number, _, _, first, following = row
            if not flags & _BASE_FLAG:
                (name,) = struct.unpack_from("<I", self.data, offset + first)
                yield number & ~_HIDDEN_BIT, self._text(name)
            if not following:
                return
            offset += following

    def _symbols(self) -> Iterator[tuple[str, tuple[Any, ...], int]]:
        """Yield the name, the row and the number of the version of each symbol."""
        if _SYMTAB not in self.tags:
            return
        rows = self._rows(_SYMBOL, self._offset(self.tags[_SYMTAB]), self._count())
        versions = self._offset(self.tags[_VERSYM]) if _VERSYM in self.tags else 0
        for index, row in enumerate(rows):
            version = 1
            if versions:
                (version,) = struct.unpack_from("<H", self.data, versions + 2 * index)
            if row[0]:
                yield self._text(row[0]), row, version & ~_HIDDEN_BIT

    def _count(self) -> int:
        """Return the number of symbols, which the loader itself does not need."""
        # It is in the older hash table (DT_HASH), else in the table of sections. A file without
        # both counts as having no symbols.
        if _HASH in self.tags:
            return int(struct.unpack_from("<II", self.data, self._offset(self.tags[_HASH]))[1])
        sections = self._rows(_SECTION, self.header[6], self.header[12])
        sizes = (row[5] for row in sections if row[1] == _SECTION_SYMBOLS)
        return int(next(sizes, 0)) // _SYMBOL.size


def _folders(text: str) -> tuple[str, ...]:
    return tuple(each for each in text.split(":") if each)
