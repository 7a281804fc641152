"""What Apptainer takes for its own syntax wherever it stands in a definition.

Apptainer reads a definition before any shell does, and knows nothing of quotes or heredocs: a
line whose first word begins with ``%`` ends the section, ``{{ word }}`` is a build argument, and a
line that begins with ``bootstrap:`` starts a new stage (seen with Apptainer 1.4.5).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_HAZARDS = (
    (r"[ \t]*%", "Apptainer takes a line that begins with '%' for a section"),
    (r".*?\{\{[ \t]*\w+[ \t]*\}\}", "Apptainer takes '{{ word }}' for a build argument"),
    (r"(?i:[ \t]*bootstrap:)", "Apptainer takes 'bootstrap:' for the start of a stage"),
)
_FORMS = tuple((re.compile(form), reason) for form, reason in _HAZARDS)
# One search for all of a file: every file of an image is asked for.
_ANY = re.compile("|".join(f"^{form}" for form, _ in _HAZARDS), re.MULTILINE)


def hazards(text: str) -> Iterator[tuple[int, str]]:
    """Yield the number (from 1) and the reason of each line that cannot stand in a definition."""
    for number, line in enumerate(text.split("\n"), 1):
        for form, reason in _FORMS:
            if form.match(line):
                yield number, reason


def fits_a_line(text: str) -> bool:
    """Tell whether ``text`` can stand within a line of a definition, behind other words."""
    return text.isprintable() and not is_hazardous(f"-{text}")


def is_hazardous(text: str) -> bool:
    """Tell whether ``text`` holds a line that cannot stand in a definition."""
    return _ANY.search(text) is not None
