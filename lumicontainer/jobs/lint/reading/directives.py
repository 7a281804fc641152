"""Read the ``#SBATCH`` lines of a batch script, as sbatch reads them (src/sbatch/opt.c)."""

import re
from collections.abc import Collection, Iterator

from lumicontainer.jobs.lint.reading.model import Directives, Span, Word
from lumicontainer.jobs.lint.reading.options import SBATCH, split_options

_LINE = re.compile(rb"(?m)^#SBATCH([^\r\n]*)")
_COMMAND = re.compile(rb"(?m)^[^\S\n]*[^#\s]")
_WORD = re.compile(r"""(?:"[^"]*"|'[^']*'|\\.|[^\s"'#\\])+|["'#].*""")
_SEVERAL = re.compile(rb"(?m)^#SBATCH[ \t]+(?:hetjob|packjob)")


def read_directives(data: bytes, comments: Collection[int]) -> Directives:
    """Return the options of a script; none if several parts have their own options.

    ``comments`` are the places where comments begin: scripts write others in here-documents.
    """
    directives = Directives()
    if _SEVERAL.search(data):
        return directives
    command = _COMMAND.search(data)
    directives.end = first_command = command.start() if command else len(data)
    for match in _LINE.finditer(data):
        if match.start() > first_command:
            if match.start() in comments:
                directives.late.append(Span(*match.span()))
            continue
        words = list(_words(match[1].decode(errors="replace"), match.start(1)))
        if words and words[-1].raw[0] in "\"'" and words[-1].raw[-1] != words[-1].raw[0]:
            directives.unmatched.append(words.pop().span)
        while words:
            options, used, _ = split_options(words, SBATCH)
            directives.options += options
            directives.strays += words[used : used + 1]
            words = words[used + 1 :]
    return directives


def _words(text: str, begin: int) -> Iterator[Word]:
    """Yield the words of a line; quotes hold them together, and # begins a comment."""
    for match in _WORD.finditer(text):
        if match[0][0] == "#":
            return
        start = begin + len(text[: match.start()].encode())
        end = start + len(match[0].encode())
        yield Word(re.sub(r"""["'\\]""", "", match[0]), Span(start, end), match[0])
