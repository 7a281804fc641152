"""How many threads a rank may use."""

from __future__ import annotations

import os

from .setting import DEFAULT, Setting, is_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from .launchers import Launch

CPUS = "SLURM_CPUS_PER_TASK"
NAME = "OMP_NUM_THREADS"


def openmp(env: Mapping[str, str], launch: Launch) -> Setting | None:
    """Decide OMP_NUM_THREADS: what Slurm gave the task, else an even share of the machine.

    A rank that is bound to processors of its own is left alone: the program counts these itself.
    Unbound, each of several ranks would start a thread on every processor, and all wait for each
    other (on 2 cores, four ranks of Horovod did not end in 100 s; with a share each they took 29).
    """
    usable = len(os.sched_getaffinity(0))
    workers = launch.workers
    cpus = env.get(CPUS, "")
    if launch.name == "slurm" and is_number(cpus):
        return _given(int(cpus), usable, launch)
    ranks = (launch.fact("LOCAL_WORLD_SIZE") or 1) * workers
    if ranks == 1:
        return None
    if usable < (os.cpu_count() or 1) and workers == 1:
        why = "this process is bound to processors; left to the program, which counts them"
        return Setting(NAME, None, origin=launch.name, why=why)
    why = f"{usable} processors, which {ranks} ranks of this node share"
    return Setting(NAME, str(max(1, usable // ranks)), origin=DEFAULT, why=why)


def _given(cpus: int, usable: int, launch: Launch) -> Setting:
    # srun takes over no --cpus-per-task from sbatch since 22.05, but does leave its variable.
    why = CPUS
    if usable < cpus:
        why = f"{CPUS}={cpus}, but this process may run on {usable} processors only"
    if launch.workers > 1:
        why = f"{why}, which {launch.workers} ranks share"
    share = max(1, min(cpus, usable) // launch.workers)
    return Setting(NAME, str(share), origin=launch.name, why=why)
