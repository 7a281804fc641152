"""What Apptainer takes for its own syntax wherever it stands in a definition.

Apptainer reads a definition before any shell does, and knows nothing of quotes or heredocs: a
line whose first word begins with ``%`` ends the section, ``{{ word }}`` is a build argument, and a
line that begins with ``bootstrap:`` starts a new stage (seen with Apptainer 1.4.5).
"""

import re
from collections.abc import Iterator

# Each begins with a character, for that is what a search is quick by: every file is asked for.
# A look at the next letter before the choice between two saves two fifths of the time.
_BEGIN = re.compile(r"\n[^\S\n]*(?=[%bB])(%|(?i:bootstrap:))")
_ARGUMENT = re.compile(r"\{\{\s*\w+\s*\}\}")
_SECTION = "Apptainer takes a line that begins with '%' for a section"
_STAGE = "Apptainer takes 'bootstrap:' for the start of a stage"
_WORD = "Apptainer takes '{{ word }}' for a build argument"


def hazards(text: str) -> Iterator[tuple[int, str]]:
    """Yield the number (from 1) and the reason of each line that cannot stand in a definition."""
    lines = f"\n{text}"
    begins = {(m.start(), _SECTION if m[1] == "%" else _STAGE) for m in _BEGIN.finditer(lines)}
    words = {(m.start(), _WORD) for m in _ARGUMENT.finditer(lines)}
    yield from sorted({(lines.count("\n", 0, at + 1), reason) for at, reason in begins | words})


def fits_a_line(text: str) -> bool:
    """Return whether ``text`` can stand within a line of a definition, behind other words."""
    return text.isprintable() and not is_hazardous(f"-{text}")


def is_hazardous(text: str) -> bool:
    """Return whether ``text`` holds a line that cannot stand in a definition."""
    lines = f"\n{text}"
    return bool(_BEGIN.search(lines) or _ARGUMENT.search(lines))
