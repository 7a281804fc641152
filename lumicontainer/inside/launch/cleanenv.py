"""Find out that the engine cleaned Slurm's variables away from what is a task of a step.

With ``srun singularity exec --cleanenv``, each task would take itself for the only process: all of
them train the same, alone, and write to the same files. The engine starts its own processes with
an environment of its own too, so what is left to see is whose child this is: ``slurmstepd`` tells
its job and step in its title, and each of its children is a task. A container with process ids of
its own hides that; there the name of the control group tells of the step.
"""

from __future__ import annotations

import os

from ..environment import is_number
from ..errors import LaunchError
from .launchers import NONE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from .launchers import Launch

_ANCESTORS = 16
"""The engine's processes, and a user's scripts, stand between Slurm's task and this process."""


def check(env: Mapping[str, str], launch: Launch, root: str = "/") -> None:
    """Raise LaunchError where this is a task of a step of ranks and cannot know it.

    How many tasks there are is not to be seen: the first to be refused have gone when the last one
    looks. So a single one is refused too, unless it is told that it is one.
    """
    if launch.name != NONE or env.get("WORLD_SIZE") or "SLURM_JOB_ID" in env:
        return
    proc = os.path.join(root, "proc")
    step, daemon, pid = step_above(proc)
    named, task = step_of_group(os.path.join(proc, "self/cgroup"))
    step = step or named
    if step:
        first = (
            task == "0" if task else not daemon or pid == min(children(proc, daemon), default=pid)
        )
        raise LaunchError(
            "this is a task that srun started, and Slurm's variables are gone",
            where=f"step {step} on {os.uname().nodename}",
            why="without them, each task would take itself for the only process",
            hint="leave out --cleanenv (-e), or say --env WORLD_SIZE=1 where each is to run alone",
            told=first,
        )


def step_above(proc: str) -> tuple[str, int, int]:
    """Return the step of ranks that this process belongs to, the pid of its daemon, and the task's.

    The step is "" where there is none, or the daemon is out of sight.
    """
    pid, parent = _pids(os.path.join(proc, "self/stat"))
    for _ in range(_ANCESTORS):
        if parent <= 1:
            break
        title = _text(os.path.join(proc, str(parent), "cmdline"))
        if title.startswith("slurmstepd: ["):
            step = title.partition("[")[2].partition("]")[0]
            # The batch script's step is called "batch"; there are "extern" and "interactive".
            return (step if is_number(step.rpartition(".")[2]) else ""), parent, pid
        pid, parent = _pids(os.path.join(proc, str(parent), "stat"))
    return "", 0, 0


def children(proc: str, parent: int) -> list[int]:
    """Return the pids of the processes that ``parent`` started."""
    everyone = (
        _pids(os.path.join(proc, name, "stat")) for name in os.listdir(proc) if is_number(name)
    )
    return [pid for pid, above in everyone if above == parent]


def step_of_group(path: str) -> tuple[str, str]:
    """Return the step whose control group holds this process, and the number of its task.

    Either is "" where no name tells it.
    """
    step = task = ""
    for line in _text(path).splitlines():
        names = dict(part.partition("_")[::2] for part in line.split("/"))
        if is_number(names.get("job", "")) and is_number(names.get("step", "")):
            step = f"{names['job']}.{names['step']}"
            task = task or names.get("task", "")
    return step, task


def _pids(path: str) -> tuple[int, int]:
    """Return the pid of a process and that of its parent, zeros where it cannot be read."""
    # PID (NAME) STATE PARENT ...; the name may hold anything.
    before, _, after = _text(path).rpartition(")")
    pid, rest = before.partition(" ")[0], after.split()
    return (int(pid), int(rest[1])) if is_number(pid) and len(rest) > 1 else (0, 0)


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""
