"""Words that Apptainer takes for its own syntax wherever they stand in a definition.

Apptainer reads a definition before any shell does, and knows nothing of quotes or heredocs: a
line whose first word begins with ``%`` ends the section, ``{{ word }}`` is a build argument, and a
line that begins with ``bootstrap:`` starts a new stage (seen with Apptainer 1.4.5).
"""

import re
from collections.abc import Iterator

_FORMS = {
    r"^[^\S\n]*%": "Apptainer takes a line that begins with '%' for a section",
    r"^[^\S\n]*(?i:bootstrap:)": "Apptainer takes 'bootstrap:' for the start of a stage",
    r"\{\{\s*\w+\s*\}\}": "Apptainer takes '{{ word }}' for a build argument",
}


def hazards(text: str) -> Iterator[tuple[int, str]]:
    """Yield the number (from 1) and the reason of each line that cannot stand in a definition."""
    hazardous_lines: set[tuple[int, str]] = set()
    for form, reason in _FORMS.items():
        line, at = 1, 0
        for match in re.finditer(form, text, re.MULTILINE):
            line, at = line + text.count("\n", at, match.start()), match.start()
            hazardous_lines.add((line, reason))
    yield from sorted(hazardous_lines)


def fits_a_line(text: str) -> bool:
    """Return whether ``text`` can stand within a line of a definition, behind other words."""
    return text.isprintable() and not hazard(f"-{text}")


def hazard(text: str) -> str:
    """Return why the first line that cannot stand in a definition cannot; empty if all can."""
    return next((reason for _, reason in hazards(text)), "")
