"""Run a command as a Slurm job on one node, with the environment of this process.

Slurm may store batch scripts and environments in its database. So the batch script only starts a
second one, which has the command and its environment. That one is in a private folder.
"""

import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from lumicontainer.core.render.jinja import fill
from lumicontainer.errors import JobError, Problem
from lumicontainer.jobs import follow, slurm, variables
from lumicontainer.jobs.follow import Listener, SbatchOptions
from lumicontainer.jobs.variables import write_private

RESULT = "result"
NOT_SEEN = "its node did not write to this folder"
SEEN_BY_ALL = "name a folder that all nodes see: export LUMICONTAINER_CACHE=FOLDER"
"""Why a job has no log, and the hint."""
_SIGNALLED = 128
"""Exit codes from here on mean that a signal ended the program."""
_CONTINUES = "repeat the command: it continues with the layers that are in the cache"
_HINTS = (
    ("CANCELLED", f"{_CONTINUES}; sacct --jobs={{number}} --format=State%40 prints who cancelled"),
    ("TIMEOUT", "give the job more time with --time"),
    ("OUT_OF_MEMORY", "use fewer --jobs, or export SBATCH_MEM_PER_NODE=MEMORY"),
)
_ENDED = re.compile("CANCELLED|TIMEOUT|DEADLINE|OUT_OF_MEMORY")
"""States of jobs that would end in the same way a second time, or that somebody ended."""


class LostJobError(JobError):
    """The node of a job failed, or ended its processes."""


class Resources(NamedTuple):
    """Hold the cores of a job, and its memory in bytes; SBATCH_MEM_PER_NODE wins over it."""

    cores: int
    memory: int

    def options(self) -> list[str]:
        """Return the options of sbatch."""
        return [f"--cpus-per-task={self.cores}", f"--mem={self.memory >> 20}M"]


@dataclass(frozen=True)
class CommandJob:
    """Hold a command, and what its job asks for."""

    command: Sequence[str]
    folder: Path
    """A private folder on a file system that all nodes see."""
    sbatch: SbatchOptions
    resources: Resources
    marks: Sequence[Path] = ()
    """Files that the job must find, and removes."""
    name: str = ""
    """The name of the job; empty for the folder's name."""


def run(job: CommandJob, listener: Listener) -> int:
    """Run the command to its end; return its exit code. Its stdout is in the file ``RESULT``.

    Raises ``JobError`` if Slurm refuses, cannot start or ends the job.
    """
    path = job.folder / follow.COMMAND
    write_private(path, _script(job))
    sbatch = replace(job.sbatch, more=(*job.sbatch.more, *variables.OPTIONS))
    text = fill("job.sh.j2", script=str(path), options=job.resources.options())
    try:
        end = follow.run(job.folder, text, sbatch, listener, name=job.name)
    finally:
        path.unlink(missing_ok=True)
    code = -1 if end.how else int((job.folder / follow.ENDED).read_text())
    if 0 <= code < _SIGNALLED:
        return code
    raise _failure(job.folder, end.number, ask_how(end))


def ask_how(end: follow.End) -> str:
    """Return in words how Slurm ended a job whose script did not end by itself."""
    if not end.how:
        slurm.wait_for_end([f"--jobs={end.number}"])
    return end.how or slurm.last_state(end.number)


def _failure(folder: Path, number: str, how: str) -> JobError:
    log = folder / follow.LOG
    hint = next((hint for word, hint in _HINTS if word in how), _CONTINUES)
    hint = hint.format(number=number)
    if not log.exists():
        how, hint = f"{how}; {NOT_SEEN}", SEEN_BY_ALL
    kind = JobError if _ENDED.search(how) else LostJobError
    return kind(Problem(f"job {number} failed", str(log), how, hint))


def _script(job: CommandJob) -> str:
    seen = [*job.marks, Path(sys.executable)]
    return fill(
        "command.sh.j2",
        variables=variables.exported(os.environ),
        folder=str(job.folder),
        current=str(Path.cwd()),
        seen=[str(each) for each in seen],
        marks=[str(each) for each in job.marks],
        command=job.command,
    )
