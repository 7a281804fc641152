"""Read a line of a requirements file as pip does: a requirement with settings, or options.

The format is pip's (pip/_internal/req/req_file.py).
"""

import re
import shlex
from collections.abc import Iterator
from typing import NamedTuple

_SETTINGS = re.compile(r"(?<!\s)\s++(?=--[a-z]|-C[ =])")
_SHA256 = re.compile(r"sha256:([0-9a-f]{64})")
_LONG = re.compile(r"(--[\w-]+)(?:=(.*))?", re.DOTALL)
_FLAGS = frozenset(
    {"--no-index", "--pre", "--prefer-binary", "--require-hashes", "--no-require-hashes"}
)
"""The options that have no value."""
FILES = ("-r", "--requirement")
EDITABLE = ("-e", "--editable")
HASH = "--hash"


class Option(NamedTuple):
    """Hold an option as it is written, and its value."""

    name: str
    value: str = ""


class PipLine(NamedTuple):
    """Hold a line: it has a requirement, which settings may follow, or only options."""

    requirement: str = ""
    """A name with versions, a URL or a path."""
    options: tuple[Option, ...] = ()

    def hashes(self) -> list[str]:
        """Return the sha256 that the files of the package may have."""
        matches = (_SHA256.fullmatch(each.value) for each in self.options if each.name == HASH)
        return [each[1] for each in matches if each]

    def unread_hashes(self) -> list[str]:
        """Return the hashes of another kind or form."""
        values = (each.value for each in self.options if each.name == HASH)
        return [each for each in values if not _SHA256.fullmatch(each)]


def read_line(text: str) -> PipLine:
    """Return the meaning of a line without comments and continuations."""
    if text.startswith("-"):
        return PipLine("", tuple(_options(text)))
    start = _SETTINGS.search(text)
    if not start:
        return PipLine(text)
    return PipLine(text[: start.start()], tuple(_options(text[start.end() :])))


def _options(text: str) -> list[Option]:
    try:
        words = shlex.split(text)
    except ValueError:  # A quote has no end.
        words = text.split()
    options: list[Option] = []
    left = iter(words)
    for word in left:
        if options and not word.startswith("-"):  # Pip refuses it; the value shows it.
            options[-1] = Option(options[-1].name, f"{options[-1].value} {word}".strip())
        else:
            options.append(_option(word, left))
    return options


def _option(word: str, left: Iterator[str]) -> Option:
    """Return an option that a word begins; its value may be the next of the words ``left``."""
    long = _LONG.fullmatch(word)
    name, value = (long[1], long[2]) if long else (word[:2], word[2:].removeprefix("=") or None)
    if value is None and name not in _FLAGS:
        value = next(left, "")
    return Option(name, value or "")
