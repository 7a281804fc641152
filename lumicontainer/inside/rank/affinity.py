"""Bind a rank to the cores of the CCD next to its GPU, and decide its number of OpenMP threads.

The platform's table lists the cores of each GPU by its PCI address, so the order in which a rank
sees GPUs does not matter. lumi-entry binds a rank that

- may run on the GPU's cores and on others: it is not bound yet;
- is bound to one core and did not ask for so few: that is the default of srun on LUMI
  (autobind=threads), which ignores ``sbatch -c``;
- is bound to other cores (srun -c 7 assigns CCDs in their own order, which differs from the
  GPUs' order). Such a binding can be changed within the job's cgroup.

On a shared node Slurm assigns any cores. Ranks that have only srun's default, or one mask for all
of them, then divide the job's cores.

It does not bind a rank that runs on several cores inside the CCD already; if the job has fewer of
the GPU's cores than Slurm gave the rank; if ``srun -c`` asks for more cores than a CCD has; without
a launcher; and with ``--no-bind``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ..environment import DEFAULT, Setting, kept
from ..launch.launchers import DEEPSPEED, NONE, SLURM, TORCHRUN, Launch
from ..node import cpulist
from ..node.hardware import Gpu, Node
from .context import OMP, Binding, Context
from .node_launcher import SHARE, starts_ranks

CPUS = "SLURM_CPUS_PER_TASK"


def decide(context: Context) -> None:
    """Decide the cores of this rank. ``bind`` binds it before the program starts."""
    gpu, table = context.gpu, context.platform.get("gpus")
    alone = context.launch.name == NONE and context.number("WORLD_SIZE") == 1
    if gpu is not None and table and not alone and not context.options.no_bind:
        row = _row(context, gpu)
        if row.get("cores"):
            context.binding = _decide_binding(context, row)
        else:
            context.warnings.append(
                f"the platform {context.platform.get('name', '')} lists no cores for the GPU at "
                f"{gpu.pci}: ranks are not bound"
            )


def _row(context: Context, gpu: Gpu) -> Mapping[str, Any]:
    rows = (row for row in context.platform.get("gpus", ()) if row["pci"].lower() == gpu.pci)
    return next(rows, {})


# Memory needs no binding: by default the kernel takes it from the NUMA node of the core that writes
# first, and from the next one if that is full (set_mempolicy(2), MPOL_LOCAL). With a stricter
# policy, ranks would be killed although the node has free memory.
def bind(context: Context) -> None:
    """Bind this process as decided; the program inherits the binding."""
    if context.binding is not None and context.binding.changed:
        try:
            context.node.bind(context.binding.cpus)
        except OSError as error:
            cpu_list = cpulist.written(context.binding.cpus)
            context.notes.append(_line(context, f"cannot be bound to {cpu_list}: {error.strerror}"))
    if context.options.affinity_report:
        context.notes.append(reported(context))


def reported(context: Context) -> str:
    """Return the line of --affinity-report, with the processors that the kernel reports."""
    facts = " ".join(f"{name} {value}" for name, value in place(context))
    return f"affinity: {os.uname().nodename} rank {context.number('RANK')} {facts}"


def place(context: Context, running: frozenset[int] | None = None) -> list[tuple[str, str]]:
    """Return this rank's GPU, processors, NUMA node and interface, if they are known."""
    node, gpu = context.node, context.gpu
    on = node.affinity() if running is None else running
    facts = [("gpu", gpu.pci)] if gpu is not None else []
    facts.append(("cores", cpulist.written(on)))
    if gpu is None:
        return facts
    numa = _row(context, gpu).get("numa", node.numa(gpu.pci))
    prefix = context.platform.get("interface_prefix")
    interface = node.nearest(gpu.pci, node.interfaces(prefix)) if prefix else None
    facts += [("numa", str(numa))] if numa is not None else []
    facts += [("nic", interface.name + ("" if interface.up else " (down)"))] if interface else []
    return facts


class _Cores(NamedTuple):
    """The cores between which a rank decides."""

    now: frozenset[int]
    """It runs on these."""
    near: frozenset[int]
    """These are next to its GPU."""
    free: frozenset[int]
    """The job may give it these."""
    unchosen: bool
    """Nobody chose ``now`` for this rank alone."""

    def can_grow(self) -> bool:
        """Return whether nobody chose fewer cores than it could have."""
        return self.unchosen and len(self.now) < len(self.near) and not self.free <= self.now

    def would_lose(self) -> bool:
        """Return whether it would have fewer cores than now, which slows it more than distance."""
        fewest = 1 if self.unchosen else min(len(self.near), len(self.now))
        return len(self.free) < fewest

    def described(self) -> str:
        near, free = cpulist.written(self.near), cpulist.written(self.near & self.free)
        return f"of its GPU's cores {near} the job has {free or 'none'}"


def _decide_binding(context: Context, row: Mapping[str, Any]) -> Binding:
    now, near = context.node.affinity(), cpulist.parse_cpus(row["cores"])
    unchosen = _is_unchosen(context, now)
    free = _share(context, near) if unchosen else context.node.permitted(near)
    cores = _Cores(now, near, free, unchosen)
    if _is_near_or_larger(context, row, now) and not cores.can_grow():
        _note_fewer(context, cores)
    elif cores.would_lose():
        hint = f"srun --cpus-per-task={len(near)}" if len(now) < len(near) else _WHOLE
        _note(context, now, f"{cores.described()}: not bound ({hint})")
    else:
        cpus = free | context.node.permitted(_second_threads(context.node, free, now))
        _note_change(context, cores, cpus)
        return Binding(cpus, free, changed=True)
    return Binding(now, now & near, changed=False)


_WHOLE = "use whole nodes: --exclusive"


def _note_fewer(context: Context, cores: _Cores) -> None:
    """Note that a task of srun without -c stays on fewer cores than its GPU has."""
    fewer = len(cores.now) < len(cores.near)
    if fewer and not context.cpus_per_task() and context.launch.name == SLURM:
        near = cpulist.written(cores.near)
        _note(context, cores.now, f"its GPU's are {near} (srun -c {len(cores.near)})")


def _note_change(context: Context, cores: _Cores, cpus: frozenset[int]) -> None:
    """Note a binding that differs from a choice of the user."""
    if not cores.free <= cores.near:
        text = f"bound to {cpulist.written(cpus)} (whole nodes have them: --exclusive)"
        _note(context, cores.now, f"{cores.described()}: {text}")
    # Nearly every job has srun's default, which needs no line.
    elif not cpus <= cores.now and (context.cpus_per_task() or not _is_default(context, cores.now)):
        near = cpulist.written(cores.near)
        text = f"its GPU's are {near}: bound to {cpulist.written(cpus)} now"
        _note(context, cores.now, text)


def _is_near_or_larger(context: Context, row: Mapping[str, Any], now: frozenset[int]) -> bool:
    """Return whether a rank runs inside the CCD of its GPU, or asked for more than a CCD."""
    node, near = context.node, cpulist.parse_cpus(row["cores"])
    reserved = cpulist.parse_cpus(row.get("reserved", ""))
    ccd = near | reserved | node.ccd(min(near))
    # If the mask holds no second threads, srun -c counted cores.
    most = ccd if _second_threads(node, near, now) else near | reserved
    return (context.cpus_per_task() or 0) > len(most) or now <= ccd


def _is_unchosen(context: Context, now: frozenset[int]) -> bool:
    """Return whether a rank has cores that nobody chose for it alone."""
    # The ranks of these launchers inherit one mask.
    launched = context.launch.name in (TORCHRUN, DEEPSPEED)
    return (launched and context.number("LOCAL_WORLD_SIZE") != 1) or _is_default(context, now)


def _share(context: Context, near: frozenset[int]) -> frozenset[int]:
    """Return the job's cores next to this rank's GPU, and others up to an even share.

    No GPU gets a core of another one.
    """
    node, gpus = context.node, context.node.gpus()
    every = [cpulist.parse_cpus(row.get("cores", "")) for row in context.platform["gpus"]]
    job = node.permitted(frozenset().union(*every))
    # Ranks that do not see each other's GPUs cannot divide the cores.
    if len(gpus) * context.sharers < (context.number("LOCAL_WORLD_SIZE") or 1):
        return near & job
    each_near = [cpulist.parse_cpus(_row(context, gpu).get("cores", "")) & job for gpu in gpus]
    free = sorted(job.difference(*each_near))
    for gpu, cores in zip(gpus, each_near):
        more = max(0, min(len(near), len(job) // len(gpus)) - len(cores))
        if gpu == context.gpu:
            return cores | frozenset(free[:more])
        free = free[more:]
    return near & job


def _is_default(context: Context, now: frozenset[int]) -> bool:
    """Return whether a rank has the one core that srun gives to a task without ``-c``."""
    requested = context.cpus_per_task()
    return (not requested or requested > len(now)) and now <= context.node.siblings(min(now))


def _second_threads(node: Node, own: frozenset[int], now: frozenset[int]) -> frozenset[int]:
    """Return the second threads of the cores, if Slurm assigns them (not by default)."""
    # srun --hint=multithread or --threads-per-core=2 puts both threads of a core into the mask.
    first = min(now)
    if not node.siblings(first) - {first} & now:
        return frozenset()
    return frozenset().union(*(node.siblings(core) for core in own)) - own


def _note(context: Context, now: frozenset[int], text: str) -> None:
    cores = cpulist.written(now) or "none"
    context.notes.append(_line(context, f"was given cores {cores}; {text}"))


def _line(context: Context, text: str) -> str:
    gpu = context.gpu.pci if context.gpu is not None else "?"
    return f"rank {context.number('RANK')} (GPU {gpu}) {text}"


def threads(context: Context) -> Iterator[Setting]:
    """Decide OMP_NUM_THREADS: the cores of the task or binding, else a share of the node's."""
    # The program itself counts the processors that its launcher bound it to. If nothing is bound,
    # each rank would start a thread on every processor, and all would wait for each other (on 2
    # cores, four ranks of Horovod did not end in 100 s; with a share each they took 29).
    # A launcher passes its value on: each of its ranks would use all of the task's cores.
    number, launch = context.env.get(OMP), context.launch
    setting = None if starts_ranks(context.program) else _threads(context)
    if number and number == context.env.get(SHARE):
        # The start of the launcher divided the cores that its ranks share until they are bound.
        if not _is_bound(context):
            why = "this rank's share of the cores of its task"
            setting = Setting(OMP, number, origin=DEFAULT, why=why)
    elif number and launch.name == TORCHRUN:
        setting = Setting(OMP, number, origin=launch.name, why=f"left as {launch.name} set it")
    elif number:
        setting = kept(context.env, OMP)
    if setting is not None:
        yield setting


def _is_bound(context: Context) -> bool:
    return context.binding is not None and context.binding.changed


def _threads(context: Context) -> Setting | None:
    launch, binding = context.launch, context.binding
    workers = context.start.workers
    usable = len(context.node.affinity())
    bound = _is_bound(context)
    if binding is not None and bound:
        usable = max(1, len(binding.cores) // context.sharers)
    requested = context.cpus_per_task()
    if requested is not None:
        return _share_requested(requested, usable, launch, workers)
    if bound:
        why = "the number of cores that this rank is bound to, next to its GPU"
        return Setting(OMP, str(usable), origin=DEFAULT, why=why)
    ranks = (launch.fact("LOCAL_WORLD_SIZE") or 1) * workers
    if ranks == 1:
        return None
    # All ranks share what the job's cgroup permits; fewer processors are this rank's own.
    if workers == 1 and usable < len(context.node.permitted(range(os.cpu_count() or 1))):
        why = "this process is bound to processors; the program counts them"
        return Setting(OMP, None, origin=launch.name, why=why)
    why = f"{usable} processors, which {ranks} ranks of this node share"
    return Setting(OMP, str(max(1, usable // ranks)), origin=DEFAULT, why=why)


def _share_requested(requested: int, usable: int, launch: Launch, workers: int) -> Setting:
    # Since 22.05 srun ignores --cpus-per-task of sbatch, but keeps its variable.
    why = CPUS
    if usable < requested:
        why = f"{CPUS}={requested}, but this process may run on {usable} processors only"
    if workers > 1:
        why = f"{why}, which {workers} ranks share"
    share = max(1, min(requested, usable) // workers)
    return Setting(OMP, str(share), origin=launch.name, why=why)
