"""A real pseudo-terminal, and what somebody in front of it sees."""

import fcntl
import os
import pty
import re
import struct
import termios
import threading
import time
import unicodedata
from collections.abc import Callable
from contextlib import suppress

DEADLINE = 60.0
_ERASED = re.compile(r"\r\x1b\[2K(?:\x1b\[1A\x1b\[2K)*")


def until(holds: Callable[[], object]) -> None:
    """Wait until a condition holds; the deadline is for a machine that is very busy."""
    end = time.monotonic() + DEADLINE
    while not holds():
        assert time.monotonic() < end, "it did not come to hold"
        time.sleep(0.005)


class Screen:
    """The text of a terminal, with all that has scrolled up."""

    def __init__(self, text: str, columns: int, height: int) -> None:
        self.columns, self.height = columns, height
        self.rows, self.row, self.column, self.wraps = [""], 0, 0, 0
        for part in re.findall(r"\x1b\[[\d;]*[A-Za-z]|.", text, re.DOTALL):
            self._take(part)

    def _take(self, part: str) -> None:
        if part == "\r":
            self.column = 0
        elif part == "\n":
            self._down()
        elif part == "\x1b[2K":
            assert self.column == 0, "only whole lines are erased"
            self.rows[self.row] = ""
        elif part.startswith("\x1b") and not part.endswith("m"):
            assert part.endswith("A"), f"an unknown escape sequence: {part!r}"
            top = max(0, len(self.rows) - self.height)
            self.row = max(top, self.row - int(part[2:-1]))
        elif not part.startswith("\x1b"):
            self._print(part)

    def _print(self, char: str) -> None:
        if self.column + cells(char) > self.columns:
            self.wraps += 1
            self.column = 0
            self._down()
        self.rows[self.row] += char
        self.column += cells(char)

    def _down(self) -> None:
        self.row += 1
        if self.row == len(self.rows):
            self.rows.append("")


def cells(text: str) -> int:
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(unicodedata.combining(char) > 0 for char in text)


class Terminal:
    """A real pseudo-terminal, whose other side is read all the time."""

    def __init__(self, columns: int = 80, height: int = 24) -> None:
        self._master, slave = pty.openpty()
        self.stream = os.fdopen(slave, "w")
        self.columns, self.height = columns, height
        self.resize(columns, height)
        self.text = ""
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def resize(self, columns: int, height: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("4H", height, columns, 0, 0))

    def _read(self) -> None:
        raw = b""
        # A pseudo-terminal reports by an error that its other side was closed.
        with suppress(OSError):
            while True:
                raw += os.read(self._master, 65536)
                self.text = raw.decode("utf-8", "ignore")

    def finish(self) -> None:
        """Close the terminal, once all that was written has been read."""
        self.stream.close()
        self._reader.join()

    def screen(self) -> Screen:
        self.finish()
        return Screen(self.text, self.columns, self.height)

    def frames(self) -> list[list[str]]:
        """Return the lines that each redraw wrote, the last of which may not be whole yet."""
        return [part.splitlines() for part in _ERASED.split(self.text) if part]

    def close(self) -> None:
        self.finish()
        os.close(self._master)
