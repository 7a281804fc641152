"""Write to stdout and stderr, the one place where text meets a terminal.

The ``write`` of these streams is for people: it escapes characters that could steer a terminal or
hide text. Programs read documents and JSON, which are exact.
"""

from __future__ import annotations

import errno
import io
import os
import re
import sys
from collections.abc import Sequence
from typing import Any, TextIO

from lumicontainer.errors import Problem
from lumicontainer.system.terminal.masking import masked

QUIET, NORMAL, VERBOSE = -1, 0, 1
_talk = NORMAL

# Control characters but the tab and the end of a line, what changes the direction of text, and
# what is not seen; joiners stay, which writing needs. A lone surrogate is a byte that is not UTF-8.
_STEERING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0001-\U000e007f]"
)
_ESCAPES = ((0x100, "\\x{:02x}"), (0x10000, "\\u{:04x}"), (0x110000, "\\U{:08x}"))
_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+(?=@)")


def printable(text: str) -> str:
    """Return text without secrets; characters that could steer a terminal are digits in it."""
    text = masked(text)
    return text if text.isascii() and text.isprintable() else _STEERING.sub(_escaped, text)


def line(text: str) -> str:
    """Return a value as one line: newlines and tabs are written as escapes."""
    return printable(text.replace("\n", "\\n").replace("\t", "\\t"))


def _escaped(match: re.Match[str]) -> str:
    code = ord(match.group())
    return next(form.format(code) for limit, form in _ESCAPES if code < limit)


class Output(io.TextIOWrapper):
    """stdout or stderr, for people and for programs."""

    def write(self, text: str, /) -> int:
        """Write text for people."""
        super().write(self.shown(text))
        return len(text)

    def write_raw(self, text: str) -> None:
        """Write text with escape sequences of our own."""
        super().write(text)

    def shown(self, text: str) -> str:
        """Return text for people as this stream writes it: escaped, folded and coloured."""
        text = printable(text)
        if not self.isatty():
            return text
        from lumicontainer.system.terminal import style  # noqa: PLC0415 - for terminals alone

        text = style.wrapped(text, self._columns())
        return style.coloured(text) if style.has_colour() else text

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self.fileno()).columns
        except OSError:
            return 0

    def document(self, text: str) -> None:
        """Write text for programs: UTF-8 whatever the locale; to a terminal as for people."""
        if self.isatty():
            super().write(printable(text))
        else:
            self.flush()
            self.buffer.write(masked(text).encode("utf-8", "surrogateescape"))


class _Lasting(io.FileIO):
    """An output whose reader may end: `lumicontainer verify | head` keeps its exit code."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            # BrokenPipeError stands for a lost file server (ESHUTDOWN) too.
            if error.errno != errno.EPIPE:
                raise
            return memoryview(data).nbytes


def lasting(output: TextIO | None) -> TextIO:
    """Return an output that survives its reader, and that can write any character."""
    if output is None:  # Python starts so where the stream is closed.
        return os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    if not isinstance(output, io.TextIOWrapper) or output.fileno() > 2:
        return output
    return Output(
        io.BufferedWriter(_Lasting(output.fileno(), "w", closefd=False)),
        encoding=output.encoding,
        errors="backslashreplace",
        line_buffering=output.line_buffering,
        write_through=output.write_through,
    )


def write_document(text: str) -> None:
    """Write a result that programs read to stdout, byte for byte."""
    if isinstance(sys.stdout, Output):
        sys.stdout.document(text)
    else:
        sys.stdout.write(text)


def as_json(value: Any, *, indent: int | None = None) -> str:
    """Return a value as JSON of plain ASCII, which every encoding and terminal takes."""
    import json  # noqa: PLC0415 - 3 ms that `--version` need not pay

    return json.dumps(value, indent=indent).replace("\x7f", "\\u007f")


def shown(stream: TextIO, text: str) -> str:
    """Return text for people as a stream writes it."""
    return stream.shown(text) if isinstance(stream, Output) else printable(text)


def write(stream: TextIO, text: str) -> None:
    """Write text for people."""
    stream.write(text if isinstance(stream, Output) else printable(text))


def write_raw(stream: TextIO, text: str) -> None:
    """Write text that is escaped already and has escape sequences of our own."""
    if isinstance(stream, Output):
        stream.write_raw(text)
    else:
        stream.write(text)


def set_talk(talk: int) -> None:
    """Set how much is printed on stderr: ``QUIET``, ``NORMAL`` or ``VERBOSE``."""
    global _talk  # noqa: PLW0603 - as many as there are standard streams: one a process
    _talk = talk


def is_quiet() -> bool:
    """Return whether only errors are printed."""
    return _talk == QUIET


def is_verbose() -> bool:
    """Return whether commands and their output are printed."""
    return _talk == VERBOSE


def say(text: object) -> None:
    """Print a warning or a note to stderr, unless the user asked for quiet."""
    if not is_quiet():
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


def report(problem: Problem) -> None:
    """Print a problem to stderr; quiet leaves out warnings."""
    if problem.level == "error":
        sys.stderr.write(f"{problem}\n")
    else:
        say(problem)


def trace(command: Sequence[str]) -> None:
    """Print a command that starts, where the user asked for it; without passwords in URLs."""
    if is_verbose():
        import shlex  # noqa: PLC0415 - as json

        say("+ " + _CREDENTIALS.sub("***", shlex.join(command)))
