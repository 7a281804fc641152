"""Read the ``#SBATCH`` lines of a batch script, as sbatch reads them."""

import re
from collections.abc import Iterator
from typing import TypeAlias

from lumicontainer.jobs.lint.reading.model import OptionUse, Span, Word
from lumicontainer.jobs.lint.reading.options import SBATCH, split_options

_LINE = re.compile(rb"(?m)^#SBATCH(?=[ \t])([^\r\n]*)")
_SEVERAL = re.compile(rb"(?m)^#SBATCH[ \t]+(?:hetjob|packjob)")
_WORD = re.compile(r"""(?:"[^"]*"|'[^']*'|\\.|[^\s"'#\\]|(?<=\S)#)+""")


Directives: TypeAlias = tuple[tuple[OptionUse, ...], tuple[Span, ...]]


def read_directives(data: bytes, first_command: int) -> Directives:
    """Return the options of a script, and the lines that sbatch ignores."""
    if _SEVERAL.search(data):
        # Each part of a heterogeneous job has options of its own.
        return (), ()
    options: list[OptionUse] = []
    late: list[Span] = []
    for match in _LINE.finditer(data):
        if match.start() > first_command:
            late.append(Span(*match.span()))
            continue
        words = list(_words(match[1].decode(errors="replace"), match.start(1)))
        read, _, _ = split_options(words, SBATCH)
        options += read
    return tuple(options), tuple(late)


def _words(text: str, begin: int) -> Iterator[Word]:
    """Yield the words of a line; quotes hold them together, and a blank and # end them."""
    for match in _WORD.finditer(text):
        if text[match.start()] == "#":
            return
        start = begin + len(text[: match.start()].encode())
        end = start + len(match[0].encode())
        yield Word(re.sub(r"""["'\\]""", "", match[0]), Span(start, end), match[0])
        if text[match.end() : match.end() + 2].strip().startswith("#"):
            return
