"""Judge what a job that sends itself again takes for progress."""

import glob
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from lumicontainer.errors import Problem
from lumicontainer.jobs.postmortem.reading.signatures import DEFECT, pattern_of

RESTARTS = 2
"""The jobs in a row that may end without progress after the first, by default."""
_SAVING, _LEFT = 300, 60
"""Seconds before the time limit at which the program is asked to save, and at which it is ended."""
_SHORTEST = 10
"""Minutes of a job that has time for more than saving."""
OPTIONS = (
    ("signal", f"B:USR1@{_SAVING}", "seconds before the time limit: the program saves and ends"),
    ("open-mode", "append", "a job that Slurm repeats keeps its log"),
    ("requeue", "", "Slurm repeats the job if a node fails"),
)
"""The options of sbatch for such a job, each with its value and in a word why it is there."""


class Chain(NamedTuple):
    """Hold when a job sends itself again."""

    checkpoint: str
    """A file, a folder or a pattern of the shell; a newer file there is progress."""
    restarts: int
    """The jobs in a row that may end without progress, after the first."""
    logs: str = "."
    """The folder in which each rank may have its own log."""
    seconds: int = _SAVING - _LEFT
    """The time that the program has to save."""

    @property
    def defect(self) -> str:
        """Return the pattern of what logs say of a defective GPU."""
        return pattern_of(DEFECT)


def shell_pattern(checkpoint: str) -> str:
    """Return a path or a pattern as the shell expands it; find reads no word of it as an option."""
    text = glob.escape(checkpoint) if Path(checkpoint).exists() else checkpoint
    return text if checkpoint.startswith("/") else f"./{text}"


def chain_faults(checkpoint: str, array: str, minutes: int | None) -> Iterator[Problem]:
    """Yield why a job cannot send itself again."""
    if not checkpoint:
        hint = "name what your program writes last when it saves: --checkpoint checkpoints/latest"
        why = "a newer file is the proof that another job is worth its price"
        yield Problem("--until-done needs a checkpoint", "--until-done", why, hint)
    elif not checkpoint.isprintable() or "\\" in checkpoint:
        hint = "name a file without backslashes and control characters"
        yield Problem(f"invalid checkpoint '{checkpoint}'", "--checkpoint", hint=hint)
    if array:
        hint = "write one job for each part of the array, or leave out --until-done"
        yield Problem("--until-done continues one job, not an array", "--array", hint=hint)
    if minutes is not None and minutes < _SHORTEST:
        why = f"the program gets {_SAVING // 60} minutes to save"
        hint = f"write --time {_SHORTEST}m or more"
        yield Problem("the time is too short for --until-done", "--time", why, hint)
