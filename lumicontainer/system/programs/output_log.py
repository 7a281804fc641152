"""Read the output of programs line by line, and write it to logs, whose size is bounded."""

import os
import re
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from lumicontainer.system import units
from lumicontainer.system.terminal.masking import longest, masked, masked_bytes
from lumicontainer.system.terminal.output import clean

HEAD = 64 << 20
"""Bytes of the beginning that a log has."""
_OF_A_LINE = 64
"""Bytes that each line counts more, because short lines take longer to read."""
TAIL = 4 << 20
"""Bytes of the end that it has as well."""
LONGEST = 1 << 16
"""Bytes after which a line without an end is divided."""
_END = 1 << 18
"""Bytes of the end of a log that are read for a message, which shows less."""
_UNFINISHED = re.compile(rb"\x1b[^\x1b]{0,63}\Z|[\xc0-\xff][\x80-\xbf]{0,2}\Z")
"""A part of an escape sequence or of a character."""
_FEW = 64
_MOST_SHOWN = 1000
"""Lines of a chunk that progress gets; a person reads none of them at that speed."""


def clean_output(raw: bytes) -> str:
    """Return whole output lines without secrets and without escape sequences."""
    text = clean(masked_bytes(raw).decode("utf-8", "replace"))
    # An escape sequence may have split a secret.
    return masked(text)


def read_end(log: Path) -> str:
    """Return the last lines of a log without secrets, at least as many as a message shows."""
    with log.open("rb") as file:
        left_out = max(0, file.seek(0, os.SEEK_END) - _END)
        file.seek(left_out)
        text = clean_output(file.read(_END))
    # The end may begin with a part of a secret, which is not known as one.
    return text[longest() :] if left_out else text


class Lines:
    """Divide the output of a program into lines; memory and time are linear in what is new."""

    def __init__(self) -> None:
        self._pending = b""

    def add(self, chunk: bytes) -> Iterator[str]:
        """Yield the lines that end in a chunk, and a long one piece by piece."""
        ended, newline, last = (self._pending + chunk).rpartition(b"\n")
        self._pending = last
        if newline:
            yield from clean_output(ended).split("\n")
        # A progress bar overwrites its line.
        self._pending = last[last.rfind(b"\r", 0, len(last.rstrip(b"\r"))) + 1 :]
        if len(self._pending) > LONGEST + longest():
            yield from self._take_piece()

    def _take_piece(self) -> Iterator[str]:
        """Yield the beginning of a long line; the rest may begin with a part of a secret."""
        size = len(self._pending)
        unfinished = _UNFINISHED.search(self._pending, size - _FEW)
        at = unfinished.start() if unfinished else size
        text = clean_output(self._pending[:at])
        cut = max(0, len(text) - longest())
        self._pending = text[cut:].encode() + self._pending[at:]
        if cut:
            yield text[:cut]

    def unfinished(self) -> str:
        """Return the line that has no end yet."""
        return clean_output(self._pending.rstrip(b"\r"))

    def take_pending(self) -> bytes:
        """Return the output of the line that has no end yet, and forget it."""
        pending, self._pending = self._pending, b""
        return pending

    def rest(self) -> str:
        """Return what stands behind the last line; nothing follows it."""
        return clean_output(self._pending)


class OutputLog:
    """Write each line to a file; of a long output, write the beginning and the end.

    ``on_line`` gets the lines, also those that a progress bar overwrites; it gets some of them
    behind the beginning, and if many come at once. ``on_cut`` is called once, if lines are left
    out.
    """

    def __init__(
        self, file: IO[str], on_line: Callable[[str], None], on_cut: Callable[[], None]
    ) -> None:
        self._file, self._on_line, self._on_cut = file, on_line, on_cut
        self._lines = Lines()
        self._room = HEAD
        self._end: deque[bytes] = deque()
        self._kept = self._left_out = 0
        self._last = b""
        """The last line behind the beginning, from its newline on, while it has no end."""

    def add(self, chunk: bytes) -> None:
        """Write the lines that end in a chunk."""
        if self._room <= 0:
            self._keep(chunk)
            return
        self._room -= len(chunk) + _OF_A_LINE * chunk.count(b"\n")
        lines = list(self._lines.add(chunk))
        self._file.write("".join(f"{line}\n" for line in lines))
        self._file.flush()
        for line in lines[-_MOST_SHOWN:]:
            self._on_line(line)
        if b"\r" in chunk and (line := self._lines.unfinished()):
            self._on_line(line)
        if self._room <= 0:
            # A line without an end may hold the first part of a secret.
            self._keep(self._lines.take_pending())

    def close(self) -> None:
        """Write the end of the output, including an unfinished last line."""
        if self._end:
            self._write_end()
        if line := self._lines.rest():
            self._write(line)
        self._file.flush()

    def _write(self, line: str) -> None:
        self._file.write(line + "\n")

    def _keep(self, chunk: bytes) -> None:
        """Keep a chunk, which may be one of the last, and show its last whole line."""
        if not chunk:
            return
        self._end.append(chunk)
        self._kept += len(chunk)
        while self._kept - len(self._end[0]) >= TAIL:
            if not self._left_out:
                self._on_cut()
            dropped = len(self._end.popleft())
            self._kept -= dropped
            self._left_out += dropped
        self._on_line(self._last_line(chunk))

    def _last_line(self, chunk: bytes) -> str:
        """Return the last line that begins and ends in what was added; empty if none does."""
        ended, newline, rest = (self._last + chunk).rpartition(b"\n")
        self._last = newline + rest if newline and len(rest) <= LONGEST else b""
        _, begun, line = ended.rpartition(b"\n")
        return clean_output(line) if begun else ""

    def _write_end(self) -> None:
        lines = self._lines.add(b"".join(self._end))
        if self._left_out:
            # It may begin with a part of a secret, which is not known as one.
            if next(lines, None) is None:
                self._lines.take_pending()
            self._write(f"[{units.size(self._left_out)} of output are left out here]")
        for line in lines:
            self._write(line)
