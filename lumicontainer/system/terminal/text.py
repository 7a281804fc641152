"""The parts of a result's text, which ``printing.print_text`` fits to the terminal."""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from lumicontainer.errors import Problem


class TextTable(NamedTuple):
    """Hold rows whose columns are aligned; a terminal folds the last column."""

    rows: Sequence[Sequence[str]]
    cut: int | None = None
    """The column that a narrow terminal cuts; the last one then begins below it."""


class Folded(NamedTuple):
    """Hold a line that a terminal folds in the column after ``start``, or after ``below``."""

    start: str
    text: str
    below: str = ""
    usual: int = 0
    """The width to which it is folded without a terminal; 0 for none."""


class Document(NamedTuple):
    """Hold text that programs read, such as the path of a new file."""

    text: str


TextPart: TypeAlias = str | TextTable | Folded | Document | Problem
"""A ``str`` is one line, whose control characters are escaped."""
