"""Bind a rank to the cores of the CCD next to its GPU, unless it is bound there already.

The platform's table tells which cores belong to a GPU, which is known by its place on the PCI bus:
so a rank gets the right ones in whatever order it sees the GPUs. A rank is bound where it

- may run on all of the GPU's cores and on others: nobody bound it;
- was bound elsewhere, or partly so (srun -c 7 hands the CCDs out in their own order, which is not
  that of the GPUs). Such a binding can be widened as far as the job's cgroup goes.

It stays as it is where it runs inside the CCD already, where the GPU's cores are not this job's (on
a shared node Slurm gives cores from anywhere), where ``srun -c`` asked for more than a CCD has,
without a launcher, and with ``--no-bind``.

Memory needs nothing more: by the kernel's default policy it comes from the NUMA node of the core
that first writes to it, and from the next one when that is full (set_mempolicy(2), MPOL_LOCAL). A
stricter policy would let a rank be killed while there is memory left, and asking for one by ctypes,
which the standard library leaves as the only way, takes 3 ms of each start.
"""

from __future__ import annotations

import os

from ..environment import is_number
from ..launch.launchers import NONE, TORCHRUN
from ..node import cpulist

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from ..environment import Setting
    from ..node.hardware import Gpu, Interface, Node
    from .context import Context


class Binding:
    """Hold the processors that a rank runs on, and of which it is to be told.

    ``changed`` tells whether lumi-entry binds it; ``cores`` are the processors without their second
    hardware threads.
    """

    __slots__ = ("changed", "cores", "cpus")

    def __init__(self, wanted: frozenset[int], cores: frozenset[int], *, changed: bool) -> None:
        self.cpus = wanted
        self.cores = wanted & cores
        self.changed = changed


def settings(context: Context) -> Iterator[Setting]:
    """Decide where this rank runs; it is bound only when the program starts."""
    gpu, table = context.gpu, context.platform.get("gpus")
    alone = context.launch.name == NONE and context.number("WORLD_SIZE") == 1
    if gpu is not None and table and not alone and not context.options.no_bind:
        row = _row(context, gpu)
        if row.get("cores"):
            context.binding = _decided(context, row)
        else:
            context.warnings.append(
                f"the platform {context.platform.get('name', '')} knows no cores next to the GPU "
                f"at {gpu.pci}: the ranks are not bound"
            )
    yield from ()


def _row(context: Context, gpu: Gpu) -> Mapping[str, Any]:
    """Return what the platform's table says of a GPU; empty where that is nothing."""
    rows = (row for row in context.platform.get("gpus", ()) if row["pci"].lower() == gpu.pci)
    return next(rows, {})


def bind(context: Context) -> None:
    """Bind this process as decided; the program that it becomes stays bound."""
    if context.binding is not None and context.binding.changed:
        try:
            context.node.bind(context.binding.cpus)
        except OSError as error:
            wanted = cpulist.written(context.binding.cpus)
            context.notes.append(_line(context, f"cannot be bound to {wanted}: {error.strerror}"))
    if context.options.affinity_report:
        context.notes.append(reported(context))


def reported(context: Context) -> str:
    """Return the line of --affinity-report: what this rank runs on, as the kernel has it now."""
    facts = " ".join(f"{name} {value}" for name, value in place(context))
    return f"affinity: {os.uname().nodename} rank {context.number('RANK')} {facts}"


def place(context: Context, running: frozenset[int] | None = None) -> list[tuple[str, str]]:
    """Return this rank's GPU, processors, NUMA node and interface, as far as they are known."""
    node, gpu = context.node, context.gpu
    on = node.affinity() if running is None else running
    facts = [("gpu", gpu.pci)] if gpu is not None else []
    facts.append(("cores", cpulist.written(on)))
    if gpu is None:
        return facts
    numa = _row(context, gpu).get("numa", node.numa(gpu.pci))
    interface = _interface(context, gpu.pci)
    facts += [("numa", str(numa))] if numa is not None else []
    facts += [("nic", interface.name + ("" if interface.up else " (down)"))] if interface else []
    return facts


def _interface(context: Context, pci: str) -> Interface | None:
    prefix = context.platform.get("interface_prefix")
    return context.node.nearest(pci, context.node.interfaces(prefix)) if prefix else None


def _decided(context: Context, row: Mapping[str, Any]) -> Binding:
    node, now = context.node, context.node.affinity()
    own = cpulist.parse(row["cores"])
    reserved = cpulist.parse(row.get("reserved", ""))
    ccd = own | reserved | node.ccd(min(own))
    asked = _asked(context)
    seconds = _second_threads(node, own, now)
    # Where the mask holds no second threads, srun -c counted cores.
    more = asked > len(ccd if seconds else own | reserved)
    # What torchrun was given is the mask of all its ranks, and no choice for this one.
    narrow = context.launch.name == TORCHRUN and len(now) < len(own)
    if (now <= ccd and not narrow) or more:
        if not asked and len(now) < len(own) and context.launch.name == "slurm":
            _tell(context, now, f"its GPU's are {cpulist.written(own)} (srun -c {len(own)})")
        return Binding(now, own, changed=False)
    may = node.permitted(own | seconds)
    # Fewer cores than the rank has a use for would cost more than the distance does.
    if len(may & own) < min(len(own), len(now)):
        cores = cpulist.written(may) or "none"
        others = f"of its GPU's cores {cpulist.written(own)} the job has {cores}"
        _tell(context, now, f"{others}, so it stays there (whole nodes: --exclusive)")
        return Binding(now, own, changed=False)
    if not may <= now:
        _tell(
            context,
            now,
            f"its GPU's are {cpulist.written(own)}: bound to {cpulist.written(may)} now",
        )
    return Binding(may, own, changed=True)


def _asked(context: Context) -> int:
    """Return how many processors srun -c asked for; 0 where it did not."""
    text = context.env.get("SLURM_CPUS_PER_TASK", "")
    return int(text) if context.launch.name == "slurm" and is_number(text) else 0


def _second_threads(node: Node, own: frozenset[int], now: frozenset[int]) -> frozenset[int]:
    """Return the second threads of the cores, where Slurm hands out such at all (not by default).

    srun --hint=multithread or --threads-per-core=2 put both threads of a core into the mask.
    """
    first = min(now)
    if not node.siblings(first) - {first} & now:
        return frozenset()
    return frozenset().union(*(node.siblings(core) for core in own)) - own


def _tell(context: Context, now: frozenset[int], text: str) -> None:
    context.notes.append(
        _line(context, f"was given cores {cpulist.written(now) or 'none'}; {text}")
    )


def _line(context: Context, text: str) -> str:
    gpu = context.gpu.pci if context.gpu is not None else "?"
    return f"rank {context.number('RANK')} (GPU {gpu}) {text}"
