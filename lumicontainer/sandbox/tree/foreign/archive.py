"""Read a tar archive of others, one member after the other, within bounds.

``tarfile`` alone would read headers of any size into the memory, and keep every member. Only its
reader of one header's block is used.
"""

import math
import tarfile
from collections.abc import Iterator
from typing import NamedTuple, Protocol

from lumicontainer.sandbox.tree.foreign.refusal import refusal

FILE, FOLDER, SYMLINK, HARD_LINK, SPECIAL = "file", "folder", "symlink", "hard link", "special"
_KINDS = {
    **dict.fromkeys((tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE), FILE),
    **dict.fromkeys((tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE), SPECIAL),
    tarfile.DIRTYPE: FOLDER,
    tarfile.SYMTYPE: SYMLINK,
    tarfile.LNKTYPE: HARD_LINK,
}
_LONG = {tarfile.GNUTYPE_LONGNAME: "path", tarfile.GNUTYPE_LONGLINK: "linkpath"}
_HEADER_LIMIT = 1 << 20
"""Bytes of an extended header. Go's archive/tar, which makes most images, reads no longer one."""
_PIECE = 1 << 20
_LARGEST_ID = 2**32 - 2
_LATEST = 2**33
"""Seconds since 1970 of the latest time that a file gets."""


class Stream(Protocol):
    """A stream of bytes."""

    def read(self, size: int, /) -> bytes:
        """Return the next bytes, fewer than ``size`` only at the end."""


class Member(NamedTuple):
    """Hold one member of an archive."""

    name: str
    kind: str
    mode: int = 0o644
    uid: int = 0
    gid: int = 0
    size: int = 0
    time: float = 0
    target: str = ""
    """Of a link."""


class Archive:
    """Iterate over the members of an archive; raise ``InputError`` if it is invalid."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._left = self._padding = 0
        """The bytes of the member that have not been read, and those behind them."""

    def __iter__(self) -> Iterator[Member]:
        extended: dict[str, str] = {}
        while block := self._stream.read(tarfile.BLOCKSIZE):
            if not any(block):
                return
            info = _header(block)
            if info.type in (tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE):
                extended |= _records(self._extension(info))
            elif info.type == tarfile.XGLTYPE:
                self._extension(info)
            elif info.type in _LONG:
                extended[_LONG[info.type]] = _text(self._extension(info).partition(b"\0")[0])
            else:
                yield self._begin(info, extended)
                for _ in self.pieces():
                    """Skip what the caller has not read."""
                extended = {}

    def pieces(self) -> Iterator[bytes]:
        """Yield the content of the current member in pieces."""
        while self._left:
            piece = self._exactly(min(self._left, _PIECE))
            self._left -= len(piece)
            yield piece
        self._exactly(self._padding)
        self._padding = 0

    def _begin(self, info: tarfile.TarInfo, extended: dict[str, str]) -> Member:
        name = extended.get("path", info.name)
        kind = _KINDS.get(info.type)
        if kind is None or any(each.startswith("GNU.sparse.") for each in extended):
            raise refusal(name, "it is a sparse file, or of an unknown kind in its archive")
        uid, gid, size = (
            _number(name, extended.get(field, value), most)
            for field, value, most in (
                ("uid", info.uid, _LARGEST_ID),
                ("gid", info.gid, _LARGEST_ID),
                ("size", info.size, 2**63 - 1),
            )
        )
        time = _time(name, extended.get("mtime", info.mtime))
        target = extended.get("linkpath", info.linkname) if kind in (SYMLINK, HARD_LINK) else ""
        if "\0" in name + target:
            raise refusal(name, "its name has a zero byte")
        self._await_data(size if kind == FILE else 0)
        return Member(name, kind, info.mode & 0o7777, uid, gid, self._left, time, target)

    def _extension(self, info: tarfile.TarInfo) -> bytes:
        """Return the content of an extended header."""
        if not 0 <= info.size <= _HEADER_LIMIT:
            raise refusal(info.name, f"its extended header has {info.size} bytes")
        self._await_data(info.size)
        return b"".join(self.pieces())

    def _await_data(self, size: int) -> None:
        self._left, self._padding = size, -size % tarfile.BLOCKSIZE

    def _exactly(self, size: int) -> bytes:
        data = self._stream.read(size) if size else b""
        if len(data) < size:
            raise refusal("", "its archive ends early")
        return data


def _header(block: bytes) -> tarfile.TarInfo:
    try:
        return tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except (tarfile.HeaderError, ValueError, OverflowError) as error:
        raise refusal("", f"its archive has an invalid header: {error}") from error


def _records(text: bytes) -> dict[str, str]:
    """Return the records of an extended header (pax)."""
    records, start, last = {}, 0, len(text.rstrip(b"\0"))
    while start < last:
        digits = text[start : start + 8].partition(b" ")[0]
        end = start + (int(digits) if digits.isdigit() else 0)
        name, equals, value = text[start + len(digits) + 1 : max(end - 1, 0)].partition(b"=")
        if not name or not equals or text[end - 1 : end] != b"\n":
            raise refusal("", "its archive has an invalid extended header")
        records[_text(name)] = _text(value)
        start = end
    return records


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _number(name: str, value: str | int, most: int) -> int:
    if isinstance(value, str):
        value = int(value) if value.isascii() and value.isdecimal() and len(value) < 20 else -1
    if not 0 <= value <= most:
        raise refusal(name, "its size or its owner is invalid")
    return value


def _time(name: str, value: str | float) -> float:
    try:
        seconds = float(value)
    except (ValueError, OverflowError):
        seconds = math.nan
    if math.isnan(seconds):
        raise refusal(name, "its time is invalid")
    return min(max(seconds, 0), _LATEST)
