"""Format messages for a terminal: fold long lines and colour labels."""

import os
import re
import textwrap
from collections.abc import Iterator, Mapping

_TIME = r"(?:\d\d:\d\d:\d\d )?"
_LABEL = re.compile(rf"({_TIME} *)(error|warning|note|where|why|hint|left out)(?=: )")
_STATE = re.compile(rf"({_TIME}(?:\[ *\d+/\d+\] )?)(passed|failed|skipped|error)(?=  )")
_MARK = re.compile(r"()([✓✗])(?= )")
_COMMANDS = ("lumicontainer ", "singularity ", "apptainer ", "sudo ", "srun ", "make ")
_BOLD, _RED, _GREEN, _YELLOW, _CYAN = "1", "1;31", "32", "1;33", "1;36"
_COLOURS: Mapping[str, str] = {
    **dict.fromkeys(("error", "failed", "✗"), _RED),
    **dict.fromkeys(("passed", "✓"), _GREEN),
    **dict.fromkeys(("warning", "skipped"), _YELLOW),
    **dict.fromkeys(("note", "hint"), _CYAN),
    **dict.fromkeys(("where", "why", "left out"), _BOLD),
}
_PLAIN = "\x1b[0m"


def has_colour() -> bool:
    """Return whether the terminal supports colours and NO_COLOR is not set."""
    return os.environ.get("TERM", "dumb") != "dumb" and not os.environ.get("NO_COLOR")


def coloured(text: str) -> str:
    """Return text with coloured labels of messages and states of checks."""
    return "".join(_coloured(line) for line in text.splitlines(keepends=True))


def _coloured(line: str) -> str:
    match = _LABEL.match(line) or _STATE.match(line) or _MARK.match(line)
    if not match:
        return line
    start, word = match.groups()
    return f"{start}\x1b[{_COLOURS[word]}m{word}{_PLAIN}{line[match.end() :]}"


def wrapped(text: str, columns: int) -> str:
    """Return messages with long lines folded and indented below their label."""
    return "".join(_parts(text, columns)) if columns > _NARROWEST else text


_NARROWEST = 30
"""Columns; a narrower terminal has too little space for an indent."""


def _parts(text: str, columns: int) -> Iterator[str]:
    indent = ""
    for line in text.splitlines(keepends=True):
        label = _LABEL.match(line)
        if label:
            indent = " " * (label.end() + len(": "))
        elif not (indent and line.startswith(indent)):
            # A line with a smaller indent belongs to something else.
            indent = ""
        words = line[len(indent) :]
        # A command stays on one line, so that it can be copied.
        if not indent or len(line.rstrip()) <= columns or words.startswith(_COMMANDS):
            yield line
        else:
            yield _folded(line, indent, columns)


def _folded(line: str, indent: str, columns: int) -> str:
    first, rest = line[: len(indent)], line[len(indent) :].strip()
    fold = textwrap.TextWrapper(columns, first, indent, break_long_words=False)
    fold.break_on_hyphens = False
    return fold.fill(rest) + ("\n" if line.endswith("\n") else "")
