"""How many threads a rank may use."""

from __future__ import annotations

import os

from ..environment import DEFAULT, USER, Setting, is_number
from .node_launcher import starts_ranks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..launch.launchers import Launch
    from .context import Context

CPUS = "SLURM_CPUS_PER_TASK"
NAME = "OMP_NUM_THREADS"


def settings(context: Context) -> Iterator[Setting]:
    """Decide OMP_NUM_THREADS: what Slurm gave the task or lumi-entry binds it to, else a share.

    A rank that is bound to processors of its own is left alone: the program counts these itself.
    Unbound, each of several ranks would start a thread on every processor, and all wait for each
    other (on 2 cores, four ranks of Horovod did not end in 100 s; with a share each they took 29).
    """
    # What a launcher has set it hands on: each of its ranks would take all of the task's cores.
    setting = None if starts_ranks(context.program) else _decided(context)
    if context.env.get(NAME):
        setting = Setting(NAME, context.env[NAME], origin=USER, why="set already")
    if setting is not None:
        yield setting


def _decided(context: Context) -> Setting | None:
    env, launch, binding = context.env, context.launch, context.binding
    usable = len(context.node.affinity())
    bound = binding is not None and binding.changed
    if binding is not None and bound:
        usable = max(1, len(binding.cores) // context.sharers)
    asked = env.get(CPUS, "")
    if launch.name == "slurm" and is_number(asked):
        return _given(int(asked), usable, launch)
    if bound:
        why = "the cores next to its GPU, which this rank is bound to"
        return Setting(NAME, str(usable), origin=DEFAULT, why=why)
    ranks = (launch.fact("LOCAL_WORLD_SIZE") or 1) * launch.workers
    if ranks == 1:
        return None
    # What the job's cgroup leaves is for all of its ranks; fewer are this rank's own.
    if launch.workers == 1 and usable < len(context.node.permitted(range(os.cpu_count() or 1))):
        why = "this process is bound to processors; left to the program, which counts them"
        return Setting(NAME, None, origin=launch.name, why=why)
    why = f"{usable} processors, which {ranks} ranks of this node share"
    return Setting(NAME, str(max(1, usable // ranks)), origin=DEFAULT, why=why)


def _given(asked: int, usable: int, launch: Launch) -> Setting:
    # srun takes over no --cpus-per-task from sbatch since 22.05, but does leave its variable.
    why = CPUS
    if usable < asked:
        why = f"{CPUS}={asked}, but this process may run on {usable} processors only"
    if launch.workers > 1:
        why = f"{why}, which {launch.workers} ranks share"
    share = max(1, min(asked, usable) // launch.workers)
    return Setting(NAME, str(share), origin=launch.name, why=why)
