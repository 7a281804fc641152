"""How many threads a rank may use."""

from __future__ import annotations

import os

from .setting import Setting, is_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from .launchers import Launch

CPUS = "SLURM_CPUS_PER_TASK"


def openmp(env: Mapping[str, str], launch: Launch) -> Setting | None:
    """Decide OMP_NUM_THREADS in a Slurm step: as many as each task was given, where that is said.

    An unset one is left to the program, which counts the processors it may run on.
    """
    if launch.name != "slurm":
        return None
    cpus = env.get(CPUS, "")
    if not is_number(cpus):
        why = f"{CPUS} is not set; left to the program"
        return Setting("OMP_NUM_THREADS", None, origin=launch.name, why=why)
    # srun takes over no --cpus-per-task from sbatch since 22.05, but does leave its variable.
    usable = len(os.sched_getaffinity(0))
    if usable < int(cpus):
        why = f"{CPUS}={cpus}, but this process may run on {usable} processors only"
        return Setting("OMP_NUM_THREADS", str(usable), origin=launch.name, why=why)
    return Setting("OMP_NUM_THREADS", cpus, origin=launch.name, why=CPUS)
