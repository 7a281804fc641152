"""Write to stdout and stderr: what people read here is the one place where text meets a terminal.

Every verb writes text for people by the ordinary ``write`` of these streams, which escapes what
could steer a terminal or hide what stands there. Programs read documents and JSON, which are exact.
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
    """Return text without secrets, and with what could steer a terminal written in digits."""
    text = masked(text)
    return text if text.isascii() and text.isprintable() else _STEERING.sub(_escaped, text)


def line(text: str) -> str:
    """Return a value that must stay within its line, with ends of lines and tabs written out."""
    return printable(text.replace("\n", "\\n").replace("\t", "\\t"))


def _escaped(match: re.Match[str]) -> str:
    code = ord(match.group())
    return next(form.format(code) for limit, form in _ESCAPES if code < limit)


class Output(io.TextIOWrapper):
    """Be stdout or stderr: text for people, and beside it what programs read."""

    def write(self, text: str, /) -> int:
        """Write text for people."""
        super().write(self._shown(text))
        return len(text)

    def redraw(self, steering: str, text: str) -> None:
        """Write text for people after escape sequences of our own, at once."""
        super().write(steering + self._shown(text))

    def _shown(self, text: str) -> str:
        text = printable(text)
        if not self.isatty():
            return text
        from lumicontainer.system.terminal import paint  # noqa: PLC0415 - for terminals alone

        text = paint.wrapped(text, self._columns())
        return paint.coloured(text) if paint.has_colour() else text

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
    """An output that takes what nobody reads: a verdict stays though `head` has gone."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            # BrokenPipeError says too little: it is that of a lost file server (ESHUTDOWN), too.
            if error.errno != errno.EPIPE:
                raise
            return memoryview(data).nbytes


def lasting(output: TextIO | None) -> TextIO:
    """Return an output that its reader's going does not end, and that has a code for any letter."""
    if output is None:  # Python's word for what was closed before it began.
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


def redraw(stream: TextIO, steering: str, text: str) -> None:
    """Write text for people after escape sequences of our own."""
    if isinstance(stream, Output):
        stream.redraw(steering, text)
    else:
        stream.write(steering + printable(text))


def set_talk(talk: int) -> None:
    """Decide how much is told on stderr: ``QUIET``, ``NORMAL`` or ``VERBOSE``."""
    global _talk  # noqa: PLW0603 - as many as there are standard streams: one a process
    _talk = talk


def is_quiet() -> bool:
    """Tell whether only errors are told."""
    return _talk == QUIET


def is_verbose() -> bool:
    """Tell whether commands and their output are told."""
    return _talk == VERBOSE


def say(text: object) -> None:
    """Print talk, such as a warning or a note, to stderr."""
    if not is_quiet():
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


def report(problem: Problem) -> None:
    """Print a problem to stderr: an error always, a warning as talk."""
    if problem.level == "error":
        sys.stderr.write(f"{problem}\n")
    else:
        say(problem)


def trace(command: Sequence[str]) -> None:
    """Print a command that is started, where that is asked for; without passwords in URLs."""
    if is_verbose():
        import shlex  # noqa: PLC0415 - as json

        say("+ " + _CREDENTIALS.sub("***", shlex.join(command)))
