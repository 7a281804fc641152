"""Write to stdout and stderr. This is the only module that does.

The ``write`` method of these streams escapes characters that could control a terminal or hide text.
Documents and JSON, which programs read, are written unchanged.
"""

import errno
import io
import json
import os
import re
import shlex
import sys
import textwrap
from collections.abc import Sequence
from typing import Any, TextIO

from lumicontainer.errors import Problem
from lumicontainer.system.terminal import style
from lumicontainer.system.terminal.masking import masked

QUIET, NORMAL, VERBOSE = -1, 0, 1
GAP = "  "
"""Blanks before each column of a table."""
_verbosity = NORMAL

# Control characters except tab and newline, characters that change the direction of text, and
# invisible ones except joiners, which some scripts need. A lone surrogate is a byte outside UTF-8.
_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0001-\U000e007f]"
)
_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+(?=@)")
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]+")
_SEQUENCE = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(\x07|\x1b\\)?|.)?")


def clean(text: str) -> str:
    """Return output of a program without escape sequences and overwritten lines."""
    if "\r" in text:
        text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    return _UNPRINTABLE.sub("", _SEQUENCE.sub("", text))


def printable(text: str) -> str:
    """Return text without secrets; characters that could control a terminal become escapes."""
    text = masked(text)
    return text if text.isascii() and text.isprintable() else _CONTROL.sub(_escaped, text)


def hides_text(text: str) -> bool:
    """Return whether a terminal or an editor may show something else than what a text says."""
    return bool(_CONTROL.search(text))


def line(text: str) -> str:
    """Return a value as one line; newlines and tabs become escapes."""
    return printable(text.replace("\n", "\\n").replace("\t", "\\t"))


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()


class Output(io.TextIOWrapper):
    """Be stdout or stderr, for people and for programs."""

    def write(self, text: str, /) -> int:
        """Write text for people."""
        super().write(self.shown(text))
        return len(text)

    def write_raw(self, text: str) -> None:
        """Write text with escape sequences of this program."""
        super().write(text)

    def shown(self, text: str) -> str:
        """Return text as this stream shows it: escaped, folded and coloured."""
        text = printable(text)
        if not self.isatty():
            return text
        text = style.wrapped(text, self.columns())
        return style.coloured(text) if style.has_colour() else text

    def columns(self) -> int:
        """Return the width of the terminal; 0 for other streams."""
        try:
            return os.get_terminal_size(self.fileno()).columns
        except OSError:
            return 0


class _Lasting(io.FileIO):
    """Ignore that the reader has ended: `lumicontainer verify | head` keeps its exit code."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            # BrokenPipeError also covers ESHUTDOWN, a lost file server.
            if error.errno != errno.EPIPE:
                error.filename = "/dev/stderr" if self.fileno() == 2 else "/dev/stdout"
                raise
            return memoryview(data).nbytes


def lasting(output: TextIO | None) -> TextIO:
    """Return a stream that survives the end of its reader and can write any character."""
    if output is None:  # Python starts like this if the stream is closed.
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
    """Write a result for programs to stdout, as UTF-8 in any locale; escape it on a terminal."""
    if not isinstance(sys.stdout, Output):
        sys.stdout.write(text)
    elif sys.stdout.isatty():
        sys.stdout.write_raw(printable(text))
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(masked(text).encode("utf-8", "surrogateescape"))


def print_json(value: Any) -> None:
    """Print a value as JSON to stdout."""
    sys.stdout.write(as_json(value, indent=2) + "\n")


def print_table(rows: Sequence[Sequence[str]]) -> None:
    """Print rows in aligned columns to stdout; a terminal folds the last one in its column."""
    lines = [[line(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for row in lines:
        *cells, last = map(str.ljust, row, widths)
        print_folded(GAP.join(["", *cells, ""]), last.rstrip())


def columns(usual: int = 0) -> int:
    """Return the width of the terminal that shows the result, or ``usual`` if none does."""
    width = sys.stdout.columns() if isinstance(sys.stdout, Output) else 0
    return width if width >= 2 * _LEAST else usual


def print_folded(start: str, text: str, *, below: str = "", usual: int = 0) -> None:
    """Print a line of a result to stdout; a terminal folds ``text`` in the column after ``start``.

    The lines below begin with ``below`` instead, if it is given. If ``start`` leaves little of the
    line, the text begins on the next one. Without a terminal it is folded to ``usual`` columns,
    if that is given.
    """
    width = columns(usual)
    if not text or not width or len(start) + len(text) <= width:
        sys.stdout.write(f"{start}{text}".rstrip() + "\n")
        return
    if width - len(start) < min(_LEAST, len(text)):
        sys.stdout.write(start.rstrip() + "\n")
        start = " " * _INDENT
    below = below or " " * len(start)
    fold = textwrap.TextWrapper(width, start, below, break_long_words=False)
    fold.break_on_hyphens = False
    sys.stdout.write(fold.fill(text) + "\n")


_LEAST = 20
"""Columns that folded text takes at least."""
_INDENT = 6


def as_json(value: Any, *, indent: int | None = None) -> str:
    """Return a value as JSON in plain ASCII, which suits every encoding and terminal."""
    return json.dumps(value, indent=indent).replace("\x7f", "\\u007f")


def shown(stream: TextIO, text: str) -> str:
    """Return text as a stream shows it to people."""
    return stream.shown(text) if isinstance(stream, Output) else printable(text)


def write(stream: TextIO, text: str, *, raw: bool = False) -> None:
    """Write text for people; ``raw`` text is escaped, and has sequences of this program."""
    if raw and isinstance(stream, Output):
        stream.write_raw(text)
    else:
        stream.write(text if raw or isinstance(stream, Output) else printable(text))


def set_talk(verbosity: int) -> None:
    """Set the verbosity of stderr: ``QUIET``, ``NORMAL`` or ``VERBOSE``."""
    global _verbosity  # noqa: PLW0603 - one stderr a process
    _verbosity = verbosity


def is_quiet() -> bool:
    """Return whether only errors are printed."""
    return _verbosity == QUIET


def is_verbose() -> bool:
    """Return whether commands are printed, with their output."""
    return _verbosity == VERBOSE


def say(text: object) -> None:
    """Print a warning or a note to stderr unless ``--quiet`` is set."""
    if not is_quiet():
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


def report(problem: Problem) -> None:
    """Print a problem to stderr; ``--quiet`` omits warnings."""
    if problem.level == "error":
        sys.stderr.write(f"{problem}\n")
    else:
        say(problem)


def trace(command: Sequence[str]) -> None:
    """Print a command without passwords in URLs, if ``--verbose`` is set."""
    if is_verbose():
        say("+ " + _CREDENTIALS.sub("***", shlex.join(command)))
