"""Decide the number of OpenMP threads of a rank."""

from __future__ import annotations

import os
from collections.abc import Iterator

from ..environment import DEFAULT, Setting, kept
from ..launch.launchers import Launch
from .context import Context
from .node_launcher import starts_ranks

CPUS = "SLURM_CPUS_PER_TASK"
NAME = "OMP_NUM_THREADS"


def settings(context: Context) -> Iterator[Setting]:
    """Decide OMP_NUM_THREADS: the cores of the task or of the binding, else a share of the node's.

    The program itself counts the processors that its launcher bound it to. If nothing is bound,
    each rank would start a thread on every processor, and all would wait for each other (on 2
    cores, four ranks of Horovod did not end in 100 s; with a share each they took 29).
    """
    # A launcher passes its value on: each of its ranks would use all of the task's cores.
    setting = None if starts_ranks(context.program) else _decided(context)
    if context.env.get(NAME):
        setting = kept(context.env, NAME)
    if setting is not None:
        yield setting


def _decided(context: Context) -> Setting | None:
    launch, binding = context.launch, context.binding
    workers = context.start.workers
    usable = len(context.node.affinity())
    bound = binding is not None and binding.changed
    if binding is not None and bound:
        usable = max(1, len(binding.cores) // context.sharers)
    asked = context.cpus_per_task()
    if asked is not None:
        return _given(asked, usable, launch, workers)
    if bound:
        why = "the number of cores that this rank is bound to, next to its GPU"
        return Setting(NAME, str(usable), origin=DEFAULT, why=why)
    ranks = (launch.fact("LOCAL_WORLD_SIZE") or 1) * workers
    if ranks == 1:
        return None
    # All ranks share what the job's cgroup permits; fewer processors are this rank's own.
    if workers == 1 and usable < len(context.node.permitted(range(os.cpu_count() or 1))):
        why = "this process is bound to processors; the program counts them"
        return Setting(NAME, None, origin=launch.name, why=why)
    why = f"{usable} processors, which {ranks} ranks of this node share"
    return Setting(NAME, str(max(1, usable // ranks)), origin=DEFAULT, why=why)


def _given(asked: int, usable: int, launch: Launch, workers: int) -> Setting:
    # Since 22.05 srun ignores --cpus-per-task of sbatch, but keeps its variable.
    why = CPUS
    if usable < asked:
        why = f"{CPUS}={asked}, but this process may run on {usable} processors only"
    if workers > 1:
        why = f"{why}, which {workers} ranks share"
    share = max(1, min(asked, usable) // workers)
    return Setting(NAME, str(share), origin=launch.name, why=why)
