"""Find out that the engine cleaned Slurm's variables away from what is a task of a step.

With ``srun singularity exec --cleanenv``, each task would take itself for the only process: all of
them train the same, alone, and write to the same files.
"""

from __future__ import annotations

import os

from .errors import LaunchError
from .launchers import FIRST_SPECIAL_STEP, NONE
from .setting import is_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from .context import Context

_ANCESTORS = 4
"""The engine's own processes stand between Slurm's task and its container: two, or three."""
_MEND = "leave out --cleanenv (-e), or set RANK, LOCAL_RANK, WORLD_SIZE and MASTER_ADDR by --env"


def check(context: Context) -> None:
    """Raise LaunchError where this is one of several tasks, warn where it may be one.

    The environments of the processes above tell it all, where the engine lets its own be read; the
    control group, which Slurm makes for each task, tells only that there is a step.
    """
    env = context.env
    if context.launch.name != NONE or env.get("WORLD_SIZE") or "SLURM_JOB_ID" in env:
        return
    task = task_above(os.path.join(context.node.root, "proc"))
    if task is not None:
        tasks, rank = task.get("SLURM_STEP_NUM_TASKS", ""), task.get("SLURM_PROCID", "")
        if is_number(tasks) and int(tasks) > 1:
            raise LaunchError(
                f"this is task {rank} of {tasks} that srun started, and its variables are gone",
                where="the environment of this process",
                why="cleaned of them, each task would take itself for the only process",
                mend=_MEND,
                told=rank in ("", "0"),
            )
        return
    step = step_of_group(os.path.join(context.node.root, "proc/self/cgroup"))
    if step:
        context.warnings.append(
            f"this is a task of Slurm's {step}, but takes itself for the only process, because "
            f"Slurm's variables are gone: {_MEND}"
        )


def task_above(proc: str) -> Mapping[str, str] | None:
    """Return the environment of the nearest process above that is a task of a step of ranks."""
    pid = "self"
    for _ in range(_ANCESTORS):
        pid = _parent(os.path.join(proc, pid, "stat"))
        if not is_number(pid) or int(pid) <= 1:
            return None
        env = _environment(os.path.join(proc, pid, "environ"))
        step = env.get("SLURM_STEP_ID", "")
        if is_number(step) and "SLURM_PROCID" in env:
            return env if int(step) < FIRST_SPECIAL_STEP else None
        if "SLURM_JOB_ID" in env:  # the shell of a batch job, which made this process itself
            return None
    return None


def step_of_group(path: str) -> str:
    """Return the job and step whose control group holds this process, "" where none does."""
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            text = stream.read()
    except OSError:
        return ""
    for line in text.splitlines():
        parts = line.partition("::")[2] or line.rpartition(":")[2]
        names = dict(part.partition("_")[::2] for part in parts.split("/"))
        job, step = names.get("job", ""), names.get("step", "")
        if is_number(job) and is_number(step):
            return f"step {job}.{step}"
    return ""


def _parent(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            # PID (NAME) STATE PARENT ...; the name may hold anything.
            return stream.read().rpartition(")")[2].split()[1]
    except (OSError, IndexError):
        return ""


def _environment(path: str) -> dict[str, str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            entries = stream.read().split("\0")
    except OSError:
        return {}
    return dict(entry.partition("=")[::2] for entry in entries)
