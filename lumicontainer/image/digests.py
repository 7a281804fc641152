"""The digests of an image's parts, recorded in the image when it is written, and their check.

The last data object that a build writes, ``lumicontainer-digests.json``, holds the place and the
sha256 of every part: header, descriptors, definition, metadata, file systems. All bytes between
parts are zero. The identity in the header (its UUID) is made of the sha256 of that record, and so
proves it.

An engine may append to an image later: ``singularity sign``, ``singularity overlay create``. It
adds descriptors in rows that were free and objects behind the record, and changes three fields of
the header: time of modification, number of free descriptors, size of the data. So the record leaves
these three out of the header's sha256. The last two are proven by what they count; the time is
proven (zero) only while nothing is appended. What is appended is listed, and not proven.

The record finds damage, not forgery: whoever changes a part may write another record. A signature
proves who made an image.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from lumicontainer.image import sif_format
from lumicontainer.image.sif_format import Header

NAME = "lumicontainer-digests.json"
FORM = 1
WHOLE, CHANGED, NOT_RECORDED = "whole", "changed", "not recorded"

_MARK = b"lumi"
"""How the identity of an image with a record begins: a lost record is so told from none."""
_LIMIT = 1 << 16
"""Bytes that a record has at most; 50 parts take 7,000."""
_PIECE = 4 << 20
_UNKNOWN = "0" * 64
_SHA256 = re.compile(r"[0-9a-f]{64}")


class Part(NamedTuple):
    """Hold one part of an image: its place in bytes, and the sha256 of its bytes."""

    name: str
    offset: int
    size: int
    sha256: str = _UNKNOWN

    @property
    def end(self) -> int:
        """Return the byte behind it."""
        return self.offset + self.size

    @property
    def where(self) -> str:
        """Return it in words."""
        return f"{self.name}, bytes {self.offset} to {self.end - 1}"


@dataclass(frozen=True)
class Check:
    """Hold what came of the check of an image's bytes against its record."""

    state: str
    """``whole``, ``changed`` or ``not recorded``."""
    proven: int = 0
    """How many bytes are as they were written."""
    problems: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()
    appended: tuple[Part, ...] = ()
    """What an engine appended since; nothing proves it."""


def record(parts: Iterable[Part]) -> bytes:
    """Return the record of parts as text; its size depends on their names and places alone."""
    rows = ",\n".join(f" {json.dumps(part._asdict(), sort_keys=True)}" for part in parts)
    return f'{{"form": {FORM}, "parts": [\n{rows}\n]}}\n'.encode()


def identity(text: bytes) -> bytes:
    """Return the identity of the image that has this record: a UUID (version 8, RFC 9562)."""
    raw = bytearray(_MARK + hashlib.sha256(text).digest()[:12])
    raw[6] = 0x80 | raw[6] & 0x0F
    raw[8] = 0x80 | raw[8] & 0x3F
    return bytes(raw)


def of_bytes(content: bytes) -> str:
    """Return the sha256 of bytes."""
    return hashlib.sha256(content).hexdigest()


def of_header(header: Header) -> str:
    """Return the sha256 of a header without the fields that the record cannot hold."""
    fixed = header._replace(identity=bytes(16), modified=0, free=0, data_size=0)
    return of_bytes(fixed.packed())


def of_range(file: int, offset: int, size: int) -> str:
    """Return the sha256 of a range of a file, which is open as ``file``."""
    found = hashlib.sha256()
    while size > 0 and (piece := os.pread(file, min(_PIECE, size), offset)):
        found.update(piece)
        offset, size = offset + len(piece), size - len(piece)
    return found.hexdigest()


def check(image: Path) -> Check:
    """Check every byte of an image against its record; raise ``OSError`` where it cannot be read.

    The image is a regular file.
    """
    with image.open("rb", buffering=0) as file:
        return _Reading(file.fileno()).check()


class _Reading:
    """Read one image against its record."""

    def __init__(self, file: int) -> None:
        self.file = file
        self.size = os.fstat(file).st_size
        head = os.pread(file, sif_format.DATA_OFFSET, 0)
        self.header = sif_format.read_header(head) or Header()
        self.rows = sif_format.read_descriptors(head[sif_format.DESCRIPTOR_OFFSET :])
        named = (n for n, row in enumerate(self.rows) if row.used and row.name == NAME)
        self.last = next(named, None)
        """The number of the record's descriptor, the last that the build wrote."""

    def check(self) -> Check:
        """Return what came of it."""
        if self.last is None:
            lost = self.header.identity.startswith(_MARK)
            why = f"descriptors: the record of the digests, {NAME}, is not found"
            return Check(CHANGED, problems=(why,)) if lost else Check(NOT_RECORDED)
        row = self.rows[self.last]
        own = Part(NAME, max(0, row.offset), row.size)
        if own.end > self.size:
            why = f"{own.where}: the file is cut short, it has {self.size} bytes"
            return Check(CHANGED, problems=(why,))
        text = os.pread(self.file, own.size, own.offset) if 0 <= own.size <= _LIMIT else b""
        parts = _parts(text) if identity(text) == self.header.identity else None
        if parts is None:
            why = f"{own.where}: it does not fit the identity in the header, bytes 48 to 63"
            return Check(CHANGED, problems=(why,))
        return self._against((*parts, own._replace(sha256=of_bytes(text))))

    def _against(self, parts: Sequence[Part]) -> Check:
        *recorded, own = parts
        appended = tuple(self._appended())
        problems = [*self._changed(recorded), *self._between(parts)]
        problems += [*self._behind(own, appended), *self._counts(appended)]
        state = CHANGED if problems else WHOLE
        proven = 0 if problems else own.end
        return Check(state, proven, tuple(problems), tuple(parts), appended)

    def _changed(self, parts: Sequence[Part]) -> Iterator[str]:
        """Yield each part whose sha256 is another than the recorded."""
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - most verbs need none

        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            found = list(pool.map(self._digest, parts))
        for part, sha256 in zip(parts, found, strict=True):
            if part.end > self.size:
                yield f"{part.where}: the file is cut short, it has {self.size} bytes"
            elif sha256 != part.sha256:
                yield f"{part.where}: its sha256 is another"

    def _digest(self, part: Part) -> str:
        if part.offset == 0:
            return of_header(self.header)
        return of_range(self.file, part.offset, part.size)

    def _between(self, parts: Sequence[Part]) -> Iterator[str]:
        """Yield each range between parts that is not zero."""
        ordered = sorted(parts, key=lambda part: part.offset)
        for one, other in pairwise(ordered):
            # The rows that a later signature takes lie behind those of the build.
            if one.offset == sif_format.DESCRIPTOR_OFFSET:
                yield from self._rows_behind(one)
                continue
            yield from self._not_zero(one.end, other.offset)

    def _rows_behind(self, table: Part) -> Iterator[str]:
        """Yield each free descriptor that is not zero; ``_behind`` looks at those in use."""
        first = table.size // sif_format.DESCRIPTOR_SIZE
        for number, row in enumerate(self.rows[first:], start=first):
            if not row.used:
                start = sif_format.DESCRIPTOR_OFFSET + number * sif_format.DESCRIPTOR_SIZE
                yield from self._not_zero(start, start + sif_format.DESCRIPTOR_SIZE)

    def _not_zero(self, start: int, end: int) -> Iterator[str]:
        """Yield the first byte of a range that is not zero, if there is one."""
        while start < end and (found := os.pread(self.file, min(_PIECE, end - start), start)):
            if rest := found.lstrip(b"\0"):
                yield f"padding, byte {start + len(found) - len(rest)}: it is not zero"
                return
            start += len(found)

    def _appended(self) -> Iterator[Part]:
        """Yield what was appended behind the record."""
        for row in self.rows[(self.last or 0) + 1 :]:
            if row.used:
                name = sif_format.KINDS.get(row.kind, f"object of type {row.kind:#x}")
                yield Part(name, row.offset, row.size)

    def _behind(self, own: Part, appended: Sequence[Part]) -> Iterator[str]:
        """Yield what of the bytes behind the record belongs to nothing that was appended."""
        place = own.end
        for part in sorted(appended, key=lambda part: part.offset):
            if part.offset < place or part.size <= 0 or part.end > self.size:
                yield f"{part.where}: it lies in another part, or ends behind the file"
                return
            yield from self._not_zero(place, part.offset)
            place = part.end
        if not appended and self.size != own.end:
            yield f"bytes {own.end} to {self.size - 1}: they belong to no part"
        elif appended:
            yield from self._not_zero(place, self.size)

    def _counts(self, appended: Sequence[Part]) -> Iterator[str]:
        """Yield the fields of the header that do not say what the file holds."""
        used = sum(row.used for row in self.rows)
        wanted = {"free descriptors": (self.header.free, sif_format.DESCRIPTORS - used)}
        wanted["size of the data"] = (self.header.data_size, self.size - sif_format.DATA_OFFSET)
        if not appended:
            wanted["time of modification"] = (self.header.modified, 0)
        for name, (found, right) in wanted.items():
            if found != right:
                yield f"header, bytes 0 to 127: {name}: expected {right}, got {found}"


def _parts(text: bytes) -> tuple[Part, ...] | None:
    """Return the parts that a record names; None where it is of another form."""
    try:
        rows = json.loads(text)["parts"]
        return tuple(_part(row) for row in rows)
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _part(row: Any) -> Part:
    part = Part(**row)
    numbers = (part.offset, part.size)
    fits = all(type(each) is int and 0 <= each < 1 << 62 for each in numbers)
    if not (fits and isinstance(part.name, str) and _SHA256.fullmatch(part.sha256)):
        raise ValueError(part)
    return part


def of_table(rows: Iterable[bytes]) -> Part:
    """Return the part that the used rows of the table of descriptors make."""
    table = b"".join(rows)
    return Part("descriptors", sif_format.DESCRIPTOR_OFFSET, len(table), of_bytes(table))
