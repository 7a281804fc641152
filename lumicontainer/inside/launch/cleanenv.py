"""Detect tasks of a Slurm step whose variables were removed, as ``--cleanenv`` does."""

import os
from collections.abc import Mapping

from ..environment import is_number
from ..errors import LaunchError
from ..node.hardware import Node
from .launchers import NONE, Launch

# The engine's processes and a user's scripts are between Slurm's task and this process.
_ANCESTORS = 16


# With ``srun singularity exec --cleanenv`` each task would take itself for the only process: all of
# them would train alone and write the same files. The engine's processes have a clean environment
# too. Only two traces are left: the task is a child of ``slurmstepd``, whose title holds job and
# step; and in a container with its own process ids, the name of its control group.
def check(env: Mapping[str, str], launch: Launch, node: Node) -> None:
    """Raise LaunchError if this is a task of a step, but has no variables of Slurm."""
    # The number of tasks cannot be seen: when the last one looks, the first may have ended. So a
    # single task is refused too, unless WORLD_SIZE=1 is set.
    if launch.name != NONE or env.get("WORLD_SIZE") or "SLURM_JOB_ID" in env:
        return
    step, daemon, pid = _step_above(node)
    named, task = _step_of_group(node)
    step = step or named
    if not step:
        return
    everyone = (_pids(node, name) for name in node.names("proc") if is_number(name))
    lowest = not daemon or pid == min(
        (p for p, parent in everyone if parent == daemon), default=pid
    )
    what = "srun started this task, but Slurm's variables are missing"
    where, shown = f"step {step} on {os.uname().nodename}", task == "0" if task else lowest
    why = "without them each task would take itself for the only process"
    hint = "remove --cleanenv (-e), or add --env WORLD_SIZE=1 if each task is to run alone"
    raise LaunchError(what, where, why, hint, shown=shown)


def _step_above(node: Node) -> tuple[str, int, int]:
    """Return the step of this process or "", the pid of its slurmstepd, and the pid of the task."""
    pid, parent = _pids(node, "self")
    for _ in range(_ANCESTORS):
        if parent <= 1:
            break
        title = node.text(f"proc/{parent}/cmdline")
        if title.startswith("slurmstepd: ["):
            step = title.partition("[")[2].partition("]")[0]
            # The batch script's step is called "batch"; others are "extern" and "interactive".
            return (step if is_number(step.rpartition(".")[2]) else ""), parent, pid
        pid, parent = _pids(node, str(parent))
    return "", 0, 0


def _step_of_group(node: Node) -> tuple[str, str]:
    """Return the step and the number of the task from a control group's name, else ""."""
    step = task = ""
    for line in node.text("proc/self/cgroup").splitlines():
        names = dict(part.partition("_")[::2] for part in line.split("/"))
        if is_number(names.get("job", "")) and is_number(names.get("step", "")):
            step = f"{names['job']}.{names['step']}"
            task = task or names.get("task", "")
    return step, task


def _pids(node: Node, name: str) -> tuple[int, int]:
    """Return the pid of a process and its parent's; zeros if the file cannot be read."""
    # PID (NAME) STATE PARENT ...; the name may hold any character.
    before, _, after = node.text(f"proc/{name}/stat").rpartition(")")
    pid, rest = before.partition(" ")[0], after.split()
    return (int(pid), int(rest[1])) if is_number(pid) and len(rest) > 1 else (0, 0)
