"""Messages, exceptions and exit codes."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import NamedTuple, TypeVar

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
KEEP_ONE = "keep one of them"
K = TypeVar("K")


class Problem(NamedTuple):
    """Hold one message: what is wrong, where, why, and a hint."""

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


class Fault(NamedTuple):
    """Say what is wrong with a value."""

    what: str
    why: str = ""
    hint: str = ""


class Place(NamedTuple):
    """Hold a position in a file; lines and columns count from 1. Line 0 stands for an option."""

    file: str
    line: int = 1
    column: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


class LumicontainerError(Exception):
    """Hold problems that the command line prints before it exits with ``code``."""

    code = INTERNAL

    def __init__(self, *problems: Problem) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems


class InputError(LumicontainerError):
    """The user's input is invalid: a recipe, a value, an option."""

    code = INPUT_WRONG


class HostError(LumicontainerError):
    """The host cannot do it: an engine or user namespaces are missing."""

    code = HOST_UNFIT


class LockError(LumicontainerError):
    """The lock of an image is missing or incomplete."""

    code = LOCK_STALE


class StepError(LumicontainerError):
    """A step of a build failed."""

    code = STEP_FAILED


class DownloadError(StepError):
    """A download failed or did not match its digest."""

    code = DOWNLOAD_FAILED


class JobError(LumicontainerError):
    """A Slurm job failed."""

    code = JOB_FAILED


class ExaminedError(LumicontainerError):
    """The examined thing failed, such as the checks of an image."""

    code = EXAMINED_FAILED


class SpaceError(LumicontainerError):
    """There is not enough space or quota."""

    code = NO_SPACE


def nearest(word: str, known: Iterable[str], similar: float = 0.75) -> str:
    """Return the known word most similar to ``word``; empty if none is near, or if it is known.

    ``similar`` is how similar they are at least (``difflib``): by default, one letter in four is
    another. Capitals make no difference. A part of one known word alone is near to it, and what
    begins with a known word, too.
    """
    choices = {each.lower(): each for each in sorted(known)}
    small = word.lower()
    near = get_close_matches(small, choices, n=1, cutoff=similar)
    if not near:
        same = [each for each in choices if len(each) == len(small)]
        near = get_close_matches(small, same, n=1, cutoff=_NEAR_AND_AS_LONG)
    if not near and len(small) >= _SHORTEST_PART:
        near = [each for each in choices if small in each or small.startswith(f"{each}-")]
    return choices[near[0]] if len(near) == 1 and word not in choices.values() else ""


_NEAR_AND_AS_LONG = 0.66
_SHORTEST_PART = 4
_MOST_SHOWN = 8


class Problems:
    """Collect every problem of a document, so that all are reported at once."""

    def __init__(self) -> None:
        self.noted: list[Problem] = []

    def add(self, what: str, place: Place | str, *, why: str = "", hint: str = "") -> None:
        """Add one problem with its place."""
        self.noted.append(Problem(what, str(place), why, hint))

    def unknown(self, kind: str, name: str, place: Place | str, known: Iterable[str]) -> None:
        """Add that there is nothing of this kind and name, with the most similar known name."""
        self.add(f"{kind} '{name}' not found", place, hint=did_you_mean(name, known))

    def twice(
        self, what: str, key: K, place: Place, first: dict[K, Place], hint: str = KEEP_ONE
    ) -> None:
        """Add a problem if ``first`` has another place of a key; else put this place there."""
        if (earlier := first.setdefault(key, place)) is not place:
            self.add(what, place, why=f"the first is at line {earlier.line}", hint=hint)

    def raise_if_any(self) -> None:
        """Raise ``InputError`` with all problems, if any."""
        if self.noted:
            raise InputError(*self.noted)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a hint with the known word most similar to ``word``, or with up to eight of them."""
    choices = sorted(known)
    shown = choices
    if len(choices) > _MOST_SHOWN:
        shown = [*sorted(get_close_matches(word, choices, _MOST_SHOWN, cutoff=0)), "…"]
    return near_hint(word, choices) or (f"known: {', '.join(shown)}" if choices else "")


def near_hint(word: str, known: Iterable[str]) -> str:
    """Return a hint with the known word most similar to ``word``; empty if none is near."""
    near = nearest(word, known)
    return f"did you mean '{near}'?" if near else ""
