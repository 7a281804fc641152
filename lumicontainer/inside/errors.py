"""What is wrong, told in one form: what, where, why, the hint."""

from __future__ import annotations

MISUSED = 2
"""The exit code where the input is wrong: the command line, a variable, a script."""
UNFIT = 3
"""The exit code where the node is not fit, or cannot take what the rank has to write."""


class LaunchError(Exception):
    """Carry what keeps the program from starting to the end, where it becomes the exit code.

    The code is MISUSED or UNFIT, or what a shell exits with where a command cannot be run. An error
    is every rank's, and rank 0 tells it. Where it may be one node's (``local``), the first rank of
    each other node tells a line, and where it may be one rank's (``alone``), each other rank; where
    rank 0 may not see it, ``told`` says whether this process tells all of it.
    """

    def __init__(  # noqa: PLR0913 - the parts of a message, each named where one is raised
        self,
        what: str,
        *,
        where: str = "",
        why: str = "",
        hint: str = "",
        code: int = MISUSED,
        local: bool = False,
        alone: bool = False,
        told: bool | None = None,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.why = why
        self.hint = hint
        self.code = code
        self.local = local
        self.alone = alone
        self.told = told

    def __str__(self) -> str:
        labels = (("where", self.where), ("why", self.why), ("hint", self.hint))
        lines = [f"{label:>7}: {text}" for label, text in labels if text]
        return "\n".join([f"error: {self.what}", *lines])
