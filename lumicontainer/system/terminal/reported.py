"""Read the error that a step's own script printed, in the form in which ours are printed."""

import re

from lumicontainer.errors import Problem

_BLOCK = re.compile(r"(?m)^error: (.+(?:\n[ \t]+\S.*)*)")
_PART = re.compile(r"(?m)^[ \t]*(where|why|hint): ")
_IN_LINE = re.compile(r"; hint: ")


def reported_problem(text: str) -> Problem | None:
    """Return the last error with a hint in the lines of a step, or None.

    Compilers begin lines with ``error:`` as well, and give no hint.
    """
    for block in reversed(_BLOCK.findall(text)):
        what, *parts = _PART.split(_IN_LINE.sub("\n hint: ", block))
        values = {
            name: "\n".join(line.strip() for line in value.strip().splitlines())
            for name, value in zip(parts[::2], parts[1::2], strict=True)
        }
        if "hint" in values:
            return Problem(what.strip(), **values)
    return None
