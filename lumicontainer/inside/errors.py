"""Errors that users see: what is wrong, where, why, and a hint."""

from __future__ import annotations

MISUSED = 2  # the exit code for invalid input: the command line, a variable, a script
UNFIT = 3  # the exit code if the node is not fit, or cannot store what the rank has to write
ENVIRONMENT = "the environment of this process"
INTERRUPTED = 130  # the exit code after a signal


class LaunchError(Exception):
    """Report why the program cannot start.

    ``code`` is the exit code: MISUSED, UNFIT, or a shell's if a command cannot be run. Normally
    every rank has the same error, and only rank 0 prints it. ``local``: the error may be limited
    to a node, so the first rank of each other node prints one line. ``alone``: it may be limited
    to a rank, so each other rank does. ``shown`` overrides who prints all of it.
    """

    def __init__(  # noqa: PLR0913 - the parts of a message, each named by the caller
        self,
        what: str,
        where: str = "",
        why: str = "",
        hint: str = "",
        *,
        code: int = MISUSED,
        local: bool = False,
        alone: bool = False,
        shown: bool | None = None,
    ) -> None:
        super().__init__(what)
        self.what, self.where, self.why, self.hint = what, where, why, hint
        self.code, self.local, self.alone, self.shown = code, local, alone, shown

    def __str__(self) -> str:
        labels = (("where", self.where), ("why", self.why), ("hint", self.hint))
        lines = [f"{label:>7}: {text}" for label, text in labels if text]
        return "\n".join([f"error: {self.what}", *lines])


def misused(what: str, hint: str = "") -> LaunchError:
    """Return the error for an invalid command line of lumi-entry."""
    why = "usage: lumi-entry [OPTION]... SCRIPT.py, -m MODULE or -- COMMAND, and its arguments"
    hint = hint or "lumi-entry --help; options of Python: lumi-entry -- python3 -u X.py"
    return LaunchError(what, "the command line of lumi-entry", why, hint)
