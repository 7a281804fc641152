"""Read the output of programs line by line, however long a line becomes."""

import re
from collections.abc import Iterator

from lumicontainer.system.terminal.masking import longest, masked, masked_bytes
from lumicontainer.system.terminal.output import clean

LONGEST = 1 << 16
"""Bytes after which a line without an end is divided."""
_UNFINISHED = re.compile(rb"\x1b[^\x1b]{0,63}\Z|[\xc0-\xff][\x80-\xbf]{0,2}\Z")
"""A part of an escape sequence or of a character."""
_FEW = 64


def clean_line(raw: bytes) -> str:
    """Return an output line without secrets and without escape sequences."""
    text = clean(masked_bytes(raw).decode("utf-8", "replace"))
    # An escape sequence may have split a secret.
    return masked(text)


class Lines:
    """Divide the output of a program into lines; memory and time are linear in what is new."""

    def __init__(self) -> None:
        self._pending = b""

    def add(self, chunk: bytes) -> Iterator[str]:
        """Yield the lines that end in a chunk, and a long one piece by piece."""
        *ended, last = (self._pending + chunk).split(b"\n")
        self._pending = last
        yield from map(clean_line, ended)
        # A progress bar overwrites its line.
        self._pending = last[last.rfind(b"\r", 0, len(last.rstrip(b"\r"))) + 1 :]
        if len(self._pending) > LONGEST + longest():
            yield from self._take_piece()

    def _take_piece(self) -> Iterator[str]:
        """Yield the beginning of a long line; the rest may begin with a part of a secret."""
        size = len(self._pending)
        unfinished = _UNFINISHED.search(self._pending, size - _FEW)
        at = unfinished.start() if unfinished else size
        text = clean_line(self._pending[:at])
        cut = max(0, len(text) - longest())
        self._pending = text[cut:].encode() + self._pending[at:]
        if cut:
            yield text[:cut]

    def unfinished(self) -> str:
        """Return the line that has no end yet."""
        return clean_line(self._pending.rstrip(b"\r"))

    def rest(self) -> str:
        """Return what stands behind the last line; nothing follows it."""
        return clean_line(self._pending)
