"""What Apptainer takes for its own syntax wherever it stands in a definition.

Apptainer reads a definition before any shell does, and knows nothing of quotes or heredocs: a
line whose first word begins with ``%`` ends the section, ``{{ word }}`` is a build argument, and a
line that begins with ``bootstrap:`` starts a new stage (seen with Apptainer 1.4.5).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_HAZARDS = (
    (re.compile(r"[ \t]*%"), "Apptainer takes a line that begins with '%' for a section"),
    (
        re.compile(r".*?\{\{[ \t]*\w+[ \t]*\}\}"),
        "Apptainer takes '{{ word }}' for a build argument",
    ),
    (re.compile(r"(?i)[ \t]*bootstrap:"), "Apptainer takes 'bootstrap:' for the start of a stage"),
)


def hazards(text: str) -> Iterator[tuple[int, str]]:
    """Yield the number (from 1) and the reason of each line that cannot stand in a definition."""
    for number, line in enumerate(text.split("\n"), 1):
        for form, reason in _HAZARDS:
            if form.match(line):
                yield number, reason


def is_hazardous(text: str) -> bool:
    """Tell whether ``text`` holds a line that cannot stand in a definition."""
    return next(hazards(text), None) is not None
