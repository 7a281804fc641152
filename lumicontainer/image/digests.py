"""Record the digests of an image's parts in the image, and check them.

The last data object, ``lumicontainer-digests.json``, lists place and sha256 of every part: header,
descriptors, definition, metadata, file system. A file system is several parts: its superblock, the
data of each layer, and its tables; large ones are cut, so that all cores hash them. Bytes between
parts are zero. The identity in the header (UUID) is derived from the
sha256 of the record.

An engine may append objects later (``singularity sign``, ``singularity overlay create``). It then
changes three fields of the header: modification time, free descriptors, data size. They are not in
the header's digest; the last two are compared with what they count. Appended objects are listed,
not checked.

The record detects damage, not forgery: only a signature proves who made an image.
"""

import hashlib
import json
import os
import re
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from lumicontainer.image import sif_format
from lumicontainer.image.sif_format import Header

NAME = "lumicontainer-digests.json"
FILE_SYSTEM = "squashfs"
"""The name of the parts of the file system."""
FORM = 1
WHOLE, CHANGED, NOT_RECORDED = "whole", "changed", "not recorded"

_MARK = b"lumi"
"""The first bytes of the identity of an image with a record; they reveal a lost record."""
_LIMIT = 1 << 20
"""The largest record, in bytes; 50 parts take 7,000."""
_SLICE = 256 << 20
"""The bytes of a file system that are one part."""
_PIECE = 4 << 20
_UNKNOWN = "0" * 64
_SHA256 = re.compile(r"[0-9a-f]{64}")


class Part(NamedTuple):
    """Hold offset, size and sha256 of one part of an image."""

    name: str
    offset: int
    size: int
    sha256: str = _UNKNOWN

    @property
    def end(self) -> int:
        """Return the offset after the part."""
        return self.offset + self.size

    def __str__(self) -> str:
        return f"{self.name}, bytes {self.offset} to {self.end - 1}"


class IntegrityResult(NamedTuple):
    """Hold the result of checking an image against its record."""

    state: str
    """``whole``, ``changed`` or ``not recorded``."""
    proven: int = 0
    """The number of unchanged bytes."""
    problems: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()
    appended: tuple[Part, ...] = ()
    """Objects that an engine appended; they are not checked."""

    def as_data(self) -> dict[str, Any]:
        """Return it as ``lumicontainer inspect --check --json`` prints it."""
        keys = ("name", "offset", "size")
        data = {name: getattr(self, name) for name in ("state", "problems", "proven")}
        parts = [part._asdict() for part in self.parts]
        appended = [{key: getattr(part, key) for key in keys} for part in self.appended]
        return {**data, "parts": parts, "appended": appended}


def record(parts: Iterable[Part]) -> bytes:
    """Return the record of parts; its size depends only on their names and places."""
    rows = ",\n".join(f" {json.dumps(part._asdict(), sort_keys=True)}" for part in parts)
    return f'{{"form": {FORM}, "parts": [\n{rows}\n]}}\n'.encode()


def identity(text: bytes) -> bytes:
    """Return the UUID (version 8, RFC 9562) of the image with this record."""
    raw = bytearray(_MARK + hashlib.sha256(text).digest()[:12])
    raw[6] = 0x80 | raw[6] & 0x0F
    raw[8] = 0x80 | raw[8] & 0x3F
    return bytes(raw)


def part(name: str, offset: int, content: bytes) -> Part:
    """Return the part with this content."""
    return Part(name, offset, len(content), hashlib.sha256(content).hexdigest())


def of_header(header: Header) -> str:
    """Return the sha256 of a header without the identity and the fields that engines change."""
    fixed = header._replace(identity=bytes(16), modified=0, free=0, data_size=0)
    return hashlib.sha256(fixed.packed()).hexdigest()


def of_range(file: int, offset: int, size: int) -> str:
    """Return the sha256 of a range of the open ``file``."""
    digest = hashlib.sha256()
    while size > 0 and (piece := os.pread(file, min(_PIECE, size), offset)):
        digest.update(piece)
        offset, size = offset + len(piece), size - len(piece)
    return digest.hexdigest()


class Slices:
    """Hash the parts of a file system while it is written; use it in a ``with`` block.

    Its first part, which has the superblock, is hashed last.
    """

    def __init__(self, path: Path, name: str, offset: int) -> None:
        self._path, self._name, self._offset = path, name, offset
        self._next = self._first = offset + _SLICE
        """Where the next part begins, and where the first one ends."""
        self._copied: deque[Part] = deque()
        self._done: list[Part] = []
        self._hashed: list[Future[Part]] = []
        self._pool = ThreadPoolExecutor(len(os.sched_getaffinity(0)))

    def __enter__(self) -> "Slices":
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def keep(self, recorded: Iterable[Part], ranges: Sequence[tuple[int, int, int]]) -> None:
        """Take the recorded parts of an image from which ranges will be copied here.

        A range has its start there, its place here and its size; no range has the superblock. Parts
        that are copied whole are not hashed again: one that was damaged there, or while it was
        copied, differs from its record here too.
        """
        self._copied.extend(_moved(self._name, recorded if ranges else (), ranges))
        if self._copied:
            self._first = self._next = min(self._next, self._copied[0].offset)

    def reach(self, end: int) -> None:
        """Hash the whole parts before the byte ``end`` of the file, whose bytes are final."""
        while (stop := self._stop()) <= end:
            if self._copied and self._copied[0].offset == self._next:
                self._done.append(self._copied.popleft())
            else:
                self._submit(self._next, stop)
            self._next = stop

    def end_part(self, end: int) -> None:
        """End a part at the byte ``end``, before which all bytes but the superblock are final."""
        self.reach(end)
        if end < self._first:
            self._first = self._next = end
        elif self._next < end:
            self._submit(self._next, end)
            self._next = end

    def _stop(self) -> int:
        """Return the end of the next part."""
        if not self._copied:
            return self._next + _SLICE
        first = self._copied[0]
        return first.end if first.offset == self._next else min(self._next + _SLICE, first.offset)

    def finish(self, size: int) -> list[Part]:
        """Return the parts of the file system, which is written and has ``size`` bytes."""
        end = self._offset + size
        self.reach(end)
        if self._next < end:
            self._submit(self._next, end)
        self._submit(self._offset, min(end, self._first))
        every = [*self._done, *(each.result() for each in self._hashed)]
        return sorted(every, key=lambda part: part.offset)

    def _submit(self, begin: int, end: int) -> None:
        self._hashed.append(self._pool.submit(self._hash, begin, end - begin))

    def _hash(self, offset: int, size: int) -> Part:
        with self._path.open("rb", buffering=0) as file:
            return Part(self._name, offset, size, of_range(file.fileno(), offset, size))


def _moved(
    name: str, parts: Iterable[Part], ranges: Sequence[tuple[int, int, int]]
) -> Iterator[Part]:
    """Yield the parts that are whole in one of the ranges, where they will be."""
    end = 0
    for each in sorted(parts, key=lambda part: part.offset):
        number = bisect_right(ranges, each.offset, key=itemgetter(0)) - 1
        begin, place, size = ranges[max(0, number)]
        if begin <= each.offset and each.end <= begin + size and each.size and end <= each.offset:
            end = each.end
            yield each._replace(name=name, offset=each.offset - begin + place)


def recorded_bounds(file: int) -> list[int]:
    """Return where the data of the layers of an open image begin and end, if it records that.

    The other ends of its parts are ends of full slices.
    """
    parts = [each for each in _Reading(file).recorded() or () if each.name == FILE_SYSTEM]
    return sorted(part.end for part in parts if part.size != _SLICE)


def recorded_parts(image: Path) -> Sequence[Part]:
    """Return the parts that an image records; none if it has no record, or a damaged one."""
    with image.open("rb", buffering=0) as file:
        return _Reading(file.fileno()).recorded() or ()


def check(image: Path) -> IntegrityResult:
    """Check every byte of an image, a regular file; raise ``OSError`` if it cannot be read."""
    with image.open("rb", buffering=0) as file:
        return _Reading(file.fileno()).check()


class _Reading:
    def __init__(self, file: int) -> None:
        self.file = file
        self.size = os.fstat(file).st_size
        head = os.pread(file, sif_format.DATA_OFFSET, 0)
        self.header = sif_format.read_header(head) or Header()
        self.rows = sif_format.read_descriptors(head[sif_format.DESCRIPTOR_OFFSET :])
        named = (n for n, row in enumerate(self.rows) if row.used and row.name == NAME)
        self.last = next(named, None)
        """The index of the record's descriptor, the last that the build wrote."""

    def check(self) -> IntegrityResult:
        if self.last is None:
            lost = self.header.identity.startswith(_MARK)
            why = f"descriptors: the record of the digests, {NAME}, is missing"
            return _changed(why) if lost else IntegrityResult(NOT_RECORDED)
        row = self.rows[self.last]
        own = Part(NAME, max(0, row.offset), row.size)
        if own.end > self.size:
            return _changed(f"{own}: the file is cut short, it has {self.size} bytes")
        parts = self.recorded()
        if parts is None:
            return _changed(f"{own}: it does not match the identity in the header, bytes 48 to 63")
        return self._against(parts)

    def recorded(self) -> tuple[Part, ...] | None:
        """Return the parts of the record, which is the last one; None if it is damaged."""
        if self.last is None:
            return None
        row = self.rows[self.last]
        valid = 0 <= row.size <= _LIMIT and row.offset >= 0
        text = os.pread(self.file, row.size, row.offset) if valid else b""
        parts = _parts(text) if identity(text) == self.header.identity else None
        return None if parts is None else (*parts, part(NAME, row.offset, text))

    def _against(self, parts: Sequence[Part]) -> IntegrityResult:
        *recorded, own = parts
        appended = tuple(self._appended())
        problems = [*self._differing(recorded), *self._between(parts)]
        problems += [*self._after(own, appended), *self._counts(appended)]
        if problems:
            return _changed(*problems)
        return IntegrityResult(WHOLE, own.end, (), tuple(parts), appended)

    def _differing(self, parts: Sequence[Part]) -> Iterator[str]:
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            digests = list(pool.map(self._digest, parts))
        for part, sha256 in zip(parts, digests, strict=True):
            if part.end > self.size:
                yield f"{part}: the file is cut short, it has {self.size} bytes"
            elif sha256 != part.sha256:
                yield f"{part}: its sha256 differs"

    def _digest(self, part: Part) -> str:
        return (
            of_range(self.file, part.offset, part.size) if part.offset else of_header(self.header)
        )

    def _between(self, parts: Sequence[Part]) -> Iterator[str]:
        for one, other in pairwise(sorted(parts, key=lambda part: part.offset)):
            if one.offset != sif_format.DESCRIPTOR_OFFSET:
                yield from self._not_zero(one.end, other.offset)
                continue
            # Engines fill the free rows after the build's; ``_after`` checks these.
            size = sif_format.DESCRIPTOR_SIZE
            for number, row in enumerate(self.rows):
                start = one.offset + number * size
                if start >= one.end and not row.used:
                    yield from self._not_zero(start, start + size)

    def _not_zero(self, start: int, end: int) -> Iterator[str]:
        """Yield the first byte of a range that is not zero, if any."""
        while start < end and (piece := os.pread(self.file, min(_PIECE, end - start), start)):
            if rest := piece.lstrip(b"\0"):
                yield f"padding, byte {start + len(piece) - len(rest)}: it is not zero"
                return
            start += len(piece)

    def _appended(self) -> Iterator[Part]:
        for row in self.rows[(self.last or 0) + 1 :]:
            if row.used:
                name = sif_format.KINDS.get(row.kind, f"object of type {row.kind:#x}")
                yield Part(name, row.offset, row.size)

    def _after(self, own: Part, appended: Sequence[Part]) -> Iterator[str]:
        """Yield the bytes after the record that belong to no appended object."""
        place = own.end
        for part in sorted(appended, key=lambda part: part.offset):
            if part.offset < place or part.size <= 0 or part.end > self.size:
                yield f"{part}: it overlaps another part, or ends after the file"
                return
            yield from self._not_zero(place, part.offset)
            place = part.end
        if not appended and self.size != own.end:
            yield f"bytes {own.end} to {self.size - 1}: they belong to no part"
        elif appended:
            yield from self._not_zero(place, self.size)

    def _counts(self, appended: Sequence[Part]) -> Iterator[str]:
        """Yield the fields of the header that do not match the file."""
        header, used = self.header, sum(row.used for row in self.rows)
        for name, actual, right in (
            ("free descriptors", header.free, sif_format.DESCRIPTORS - used),
            ("size of the data", header.data_size, self.size - sif_format.DATA_OFFSET),
            ("time of modification", header.modified, header.modified if appended else 0),
        ):
            if actual != right:
                yield f"header, bytes 0 to 127: {name}: expected {right}, got {actual}"


def _changed(*problems: str) -> IntegrityResult:
    return IntegrityResult(CHANGED, problems=problems)


def _parts(text: bytes) -> tuple[Part, ...] | None:
    try:
        parts = tuple(Part(**row) for row in json.loads(text)["parts"])
        return parts if all(map(_is_valid, parts)) else None
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _is_valid(part: Part) -> bool:
    numbers = all(type(each) is int and 0 <= each < 1 << 62 for each in (part.offset, part.size))
    return numbers and isinstance(part.name, str) and bool(_SHA256.fullmatch(part.sha256))
