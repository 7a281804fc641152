"""What can go wrong, in the one form in which every message is written."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

OK = 0
EXAMINED_FAILED = 1
INPUT_WRONG = 2
HOST_UNFIT = 3
LOCK_STALE = 4
STEP_FAILED = 5
DOWNLOAD_FAILED = 6
JOB_FAILED = 7
NO_SPACE = 8
INTERNAL = 70
INTERRUPTED = 130


class Problem(NamedTuple):
    """Hold one thing that is wrong: what, where, why it is wrong, and the hint."""

    what: str
    where: str = ""
    why: str = ""
    hint: str = ""
    level: str = "error"

    def __str__(self) -> str:
        lines = [f"{self.level}: {self.what}".replace("\n", "\n" + " " * 9)]
        for label in ("where", "why", "hint"):
            text = getattr(self, label)
            if text:
                lines.append(f"{label:>7}: {text}".replace("\n", "\n" + " " * 9))
        return "\n".join(lines)


class Place(NamedTuple):
    """Name a position in a file; lines and columns count from 1. Line 0 is no file's: an option."""

    file: str
    line: int = 1
    column: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


class LumicontainerError(Exception):
    """Carry problems to the command line, which prints them and exits with ``code``."""

    code = INTERNAL

    def __init__(self, *problems: Problem) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems


class InputError(LumicontainerError):
    """The user's input is wrong: a recipe, a value, an option."""

    code = INPUT_WRONG


class HostError(LumicontainerError):
    """The host cannot do what was asked: no engine, no user namespaces."""

    code = HOST_UNFIT


class LockError(LumicontainerError):
    """The lock of an image is not there, or does not hold all that the image is made of."""

    code = LOCK_STALE


class StepError(LumicontainerError):
    """A step of a build failed."""

    code = STEP_FAILED


class DownloadError(StepError):
    """What a step needs could not be fetched, or is not what it should be."""

    code = DOWNLOAD_FAILED


class JobError(LumicontainerError):
    """A job of Slurm did not do what it was sent for."""

    code = JOB_FAILED


class ExaminedError(LumicontainerError):
    """What was examined does not hold: an image fails its checks."""

    code = EXAMINED_FAILED


class SpaceError(LumicontainerError):
    """There is not enough room for what was asked."""

    code = NO_SPACE


def nearest(word: str, known: Iterable[str], *, cutoff: float = 0.8) -> str:
    """Return the known word of which ``word`` is a near miss; empty for none, and for itself."""
    from difflib import get_close_matches  # noqa: PLC0415 - only where something is wrong

    choices = sorted(known)
    near = get_close_matches(word, choices, n=1, cutoff=cutoff)
    return near[0] if near and word not in choices else ""


class Problems:
    """Collect every problem of a document, so that all are reported at once."""

    def __init__(self) -> None:
        self.found: list[Problem] = []

    def add(self, what: str, place: Place | str, *, why: str = "", hint: str = "") -> None:
        """Note one problem at its place."""
        self.found.append(Problem(what, str(place), why, hint))

    def raise_if_any(self) -> None:
        """Raise ``InputError`` with all that was noted; do nothing where all is well."""
        if self.found:
            raise InputError(*self.found)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a hint that names the known word nearest to ``word``, or all that are known."""
    choices = sorted(known)
    if near := nearest(word, choices, cutoff=0.6):
        return f"did you mean '{near}'?"
    return f"known: {', '.join(choices)}" if choices else ""
