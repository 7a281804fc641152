"""What is wrong, told in one form: what, where, why, how to mend it."""

from __future__ import annotations

MISUSED = 2
"""The exit code where the input is wrong: the command line, a variable, a script."""
UNFIT = 3
"""The exit code where the node is not fit, or cannot take what the rank has to write."""


class LaunchError(Exception):
    """Carry what keeps the program from starting to the end, where it becomes the exit code.

    The code is MISUSED or UNFIT, or what a shell exits with where a command cannot be run. What is
    ``local`` is true of this node alone, so this rank tells all of it, whichever it is.
    """

    def __init__(
        self,
        what: str,
        *,
        where: str = "",
        why: str = "",
        mend: str = "",
        code: int = MISUSED,
        local: bool = False,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.why = why
        self.mend = mend
        self.code = code
        self.local = local

    def __str__(self) -> str:
        labels = (("where", self.where), ("why", self.why), ("mend", self.mend))
        lines = [f"{label:>7}: {text}" for label, text in labels if text]
        return "\n".join([f"error: {self.what}", *lines])
