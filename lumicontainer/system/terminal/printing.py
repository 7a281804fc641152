"""Print the text of a result, fitted to the terminal."""

import sys
from collections.abc import Iterable, Sequence

from lumicontainer.errors import Problem
from lumicontainer.system.terminal.output import (
    GAP,
    columns,
    line,
    print_folded,
    print_table,
    write_document,
)
from lumicontainer.system.terminal.text import Document, Folded, TextPart, TextTable

_LEAST = 24
"""Columns that are left of a cut one at least."""


def print_text(parts: Iterable[TextPart]) -> None:
    """Print the text of a result to stdout."""
    for part in parts:
        match part:
            case TextTable(rows, cut):
                print_table(rows if cut is None else _cut(rows, cut))
            case Folded(start, text, below, usual):
                print_folded(start, line(text), below=below, usual=usual)
            case Document(text):
                write_document(text)
            case str():
                sys.stdout.write(f"{line(part)}\n")
            case Problem():
                sys.stdout.write(f"{part}\n")


def _cut(rows: Sequence[Sequence[str]], column: int) -> list[list[str]]:
    """Return rows whose ``column`` ends with the terminal's width."""
    before = [*zip(*rows, strict=True)][:column]
    room = columns() - sum(len(GAP) + max(map(len, cells)) for cells in before) - len(GAP)
    most = max(_LEAST, room) if columns() else sys.maxsize
    return [[*row[:column], _shortened(row[column], most), *row[column + 1 :]] for row in rows]


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
