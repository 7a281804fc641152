"""Bind a rank to the cores of the CCD next to its GPU, and decide its number of OpenMP threads.

The platform's table lists the cores of each GPU by its PCI address, so the order in which a rank
sees GPUs does not matter. lumi-entry binds a rank that

- may run on the GPU's cores and on others: it is not bound yet;
- is bound to one core and did not ask for so few: that is the default of srun on LUMI
  (autobind=threads), which ignores ``sbatch -c``;
- is bound to other cores (srun -c 7 assigns CCDs in their own order, which is not that of the
  GPUs). Such a binding can be changed within the job's cgroup.

It does not bind a rank that runs on several cores inside the CCD already; if the job does not have
the GPU's cores (on a shared node Slurm assigns any cores); if ``srun -c`` asks for more cores than
a CCD has; without a launcher; and with ``--no-bind``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from ..environment import DEFAULT, Setting, kept
from ..launch.launchers import NONE, TORCHRUN, Launch
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
            context.binding = _decided(context, row)
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
            wanted = cpulist.written(context.binding.cpus)
            context.notes.append(_line(context, f"cannot be bound to {wanted}: {error.strerror}"))
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


def _decided(context: Context, row: Mapping[str, Any]) -> Binding:
    node, now = context.node, context.node.affinity()
    own = cpulist.parse_cpus(row["cores"])
    reserved = cpulist.parse_cpus(row.get("reserved", ""))
    ccd = own | reserved | node.ccd(min(own))
    asked = context.cpus_per_task() or 0
    seconds = _second_threads(node, own, now)
    # If the mask holds no second threads, srun -c counted cores.
    more = asked > len(ccd if seconds else own | reserved)
    if (more or now <= ccd) and not _widened(context, own, now):
        if not asked and len(now) < len(own) and context.launch.name == "slurm":
            _note(context, now, f"its GPU's are {cpulist.written(own)} (srun -c {len(own)})")
        return Binding(now, now & own, changed=False)
    may = node.permitted(own | seconds)
    # Fewer cores would slow the rank down more than distant ones do.
    if len(may & own) < min(len(own), len(now)):
        cores = cpulist.written(may) or "none"
        others = f"of its GPU's cores {cpulist.written(own)} the job has {cores}"
        _note(context, now, f"{others}: not bound (use whole nodes: --exclusive)")
        return Binding(now, now & own, changed=False)
    # Nearly every job has srun's default.
    quiet = not asked and _by_default(context, now)
    if not may <= now and not quiet:
        others = f"its GPU's are {cpulist.written(own)}: bound to {cpulist.written(may)} now"
        _note(context, now, others)
    return Binding(may, may & own, changed=True)


def _widened(context: Context, own: frozenset[int], now: frozenset[int]) -> bool:
    """Return whether a rank gets more of its GPU's cores: nobody asked for the few that it has."""
    # A rank of torchrun inherits the mask of all its ranks.
    few = context.launch.name == TORCHRUN or _by_default(context, now)
    return few and len(now) < len(own) and bool(context.node.permitted(own) - now)


def _by_default(context: Context, now: frozenset[int]) -> bool:
    """Return whether a rank has the one core that srun gives to a task without ``-c``."""
    asked = context.cpus_per_task()
    return (not asked or asked > len(now)) and now <= context.node.siblings(min(now))


def _second_threads(node: Node, own: frozenset[int], now: frozenset[int]) -> frozenset[int]:
    """Return the second threads of the cores, if Slurm assigns them (not by default)."""
    # srun --hint=multithread or --threads-per-core=2 puts both threads of a core into the mask.
    first = min(now)
    if not node.siblings(first) - {first} & now:
        return frozenset()
    return frozenset().union(*(node.siblings(core) for core in own)) - own


def _note(context: Context, now: frozenset[int], text: str) -> None:
    given = cpulist.written(now) or "none"
    context.notes.append(_line(context, f"was given cores {given}; {text}"))


def _line(context: Context, text: str) -> str:
    gpu = context.gpu.pci if context.gpu is not None else "?"
    return f"rank {context.number('RANK')} (GPU {gpu}) {text}"


def threads(context: Context) -> Iterator[Setting]:
    """Decide OMP_NUM_THREADS: the cores of the task or binding, else a share of the node's."""
    # The program itself counts the processors that its launcher bound it to. If nothing is bound,
    # each rank would start a thread on every processor, and all would wait for each other (on 2
    # cores, four ranks of Horovod did not end in 100 s; with a share each they took 29).
    # A launcher passes its value on: each of its ranks would use all of the task's cores.
    given, launch = context.env.get(OMP), context.launch
    setting = None if starts_ranks(context.program) else _threads(context)
    if given and given == context.env.get(SHARE):
        # The start of the launcher divided the cores that its ranks share until they are bound.
        if not _is_bound(context):
            why = "this rank's share of the cores of its task"
            setting = Setting(OMP, given, origin=DEFAULT, why=why)
    elif given and launch.name == TORCHRUN:
        setting = Setting(OMP, given, origin=launch.name, why=f"left as {launch.name} set it")
    elif given:
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
    asked = context.cpus_per_task()
    if asked is not None:
        return _given(asked, usable, launch, workers)
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


def _given(asked: int, usable: int, launch: Launch, workers: int) -> Setting:
    # Since 22.05 srun ignores --cpus-per-task of sbatch, but keeps its variable.
    why = CPUS
    if usable < asked:
        why = f"{CPUS}={asked}, but this process may run on {usable} processors only"
    if workers > 1:
        why = f"{why}, which {workers} ranks share"
    share = max(1, min(asked, usable) // workers)
    return Setting(OMP, str(share), origin=launch.name, why=why)
