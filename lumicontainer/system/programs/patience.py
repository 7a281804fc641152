"""The limits of a step of a build, and of a build of a package; variables replace them."""

import math
import os
from typing import NamedTuple

from lumicontainer.errors import InputError, Problem


class Limit(NamedTuple):
    """Hold a limit by a number that a variable may replace; 0 means no limit."""

    variable: str
    unit: str
    size: int
    """Seconds or bytes of a unit."""
    usual: float

    def read(self) -> float | None:
        """Return the limit in seconds or bytes; raise ``InputError`` if the variable is invalid."""
        named = os.environ.get(self.variable, "")
        try:
            number = float(named) if named else self.usual
        except ValueError:
            number = math.nan
        if not 0 <= number < math.inf:
            what = f"invalid {self.variable} {named!a}: expected a number of {self.unit}"
            raise InputError(Problem(what, hint=f"export {self.variable}=60, or 0 for no limit"))
        return number * self.size or None

    def hint(self) -> str:
        """Return the command that raises the limit, with a word in place of the number."""
        return f"export {self.variable}={self.unit.upper()} (0: no limit)"


SILENCE = Limit("LUMICONTAINER_SILENCE", "minutes", 60, 30)
"""Ends a step without output; the compiler of DeepSpeed's largest source is silent for minutes."""
LONGEST = Limit("LUMICONTAINER_STEP_HOURS", "hours", 3600, 24)
"""Ends a step that prints for ever; PyTorch compiles in a few hours."""
LARGEST = Limit("LUMICONTAINER_STEP_GIB", "GiB", 1 << 30, 1024)
"""Ends a step that writes for ever; ROCm has 30 GB, which apt and dpkg write about four times."""


class Patience(NamedTuple):
    """Limit how long a program may print nothing, how long it may run, and how much it may write.

    None means no limit.
    """

    silence: float | None = None
    total: float | None = None
    most: float | None = None
    """Bytes that its processes write to files and pipes."""
    writing: bool = False
    """Count what the program writes to files as output."""


def read_patience() -> Patience:
    """Return the limits of a step; raise ``InputError`` if a variable is invalid."""
    return Patience(SILENCE.read(), LONGEST.read(), LARGEST.read())
