"""Lay a job out on the nodes of a partition: its tasks, GPUs, cores and memory."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lumicontainer.core.model import Partition, Platform, Share
from lumicontainer.errors import Problem, near_hint
from lumicontainer.jobs.scripts.cost import Allocation, whole_nodes
from lumicontainer.jobs.scripts.times import time_words
from lumicontainer.system import units

_WITHOUT_GPUS = 2
"""The tasks of a node without GPUs."""


class Demand(NamedTuple):
    """Hold what a user asks for; None leaves it to the platform."""

    nodes: int | None = None
    gpus: int | None = None
    """The GPUs of all nodes together."""
    tasks: int | None = None
    """The tasks of a node."""
    memory: int | None = None
    """The bytes of a node's memory."""
    minutes: int | None = None
    partition: str = ""
    jobs: int = 1
    """The jobs of its array."""
    one_task: bool = False
    """Whether one task of a node starts all of its ranks."""


class NodeLayout(NamedTuple):
    """Hold what a job gets of each node."""

    partition: Partition | None
    nodes: int
    tasks: int
    gpus: int
    cores: int
    """The cores of a task; 0 if lumi-entry takes those next to its GPU."""
    memory: int | None
    """Bytes; 0 for all of the node's, None for Slurm's default."""
    whole: bool
    """Whether the job gets all of each node."""

    def allocation(self) -> Allocation | None:
        """Return what it gets in all; None if the platform does not say."""
        if self.partition is None:
            return None
        if self.whole:
            return whole_nodes(self.partition, self.nodes)
        amounts = (self.gpus, self.cores * self.tasks, self.memory or 0)
        return Allocation(self.nodes, *(self.nodes * each for each in amounts))


def lay_out(platform: Platform, demand: Demand, problems: list[Problem]) -> NodeLayout:
    """Return the layout of a job; add what cannot be to ``problems``."""
    partitions = platform.slurm.partitions
    named = next((each for each in partitions if each.name == demand.partition), None)
    if demand.partition and partitions and named is None:
        problems.append(_unknown(demand.partition, partitions))
    size = named.gpus if named else len(platform.gpus)
    size = size if named else max((each.gpus for each in partitions), default=size)
    nodes, gpus = _spread(demand, size, problems)
    whole = gpus == size
    partition = named
    if not demand.partition:
        partition = _choose(partitions, NodeLayout(None, nodes, 0, gpus, 0, None, whole), demand)
    layout = _share(platform, partition, demand, (nodes, gpus))
    problems += _faults(layout, demand, partitions)
    return layout


def _unknown(name: str, partitions: Sequence[Partition]) -> Problem:
    names = [each.name for each in partitions]
    hint = near_hint(name, names) or f"the platform's partitions are {', '.join(names)}"
    return Problem(f"partition '{name}' not found", "--partition", hint=hint)


def _spread(demand: Demand, size: int, problems: list[Problem]) -> tuple[int, int]:
    """Return the number of nodes, and the GPUs of each."""
    if demand.gpus is None:
        return demand.nodes or 1, size
    if not size:
        what = "the partition has no GPUs" if demand.partition else "the platform has no GPUs"
        problems.append(Problem(what, "--gpus", hint="leave out --gpus"))
        return demand.nodes or 1, 0
    nodes = demand.nodes or -(-demand.gpus // size)
    gpus, rest = divmod(demand.gpus, nodes)
    if rest or gpus > size:
        what = f"{units.count(nodes, 'node')} cannot share {demand.gpus} GPUs evenly"
        if gpus + bool(rest) > size:
            what = f"{units.count(nodes, 'node')} of {size} GPUs cannot give {demand.gpus}"
        even = max(1, demand.gpus // size) * size
        hint = f"write --gpus {even} and leave out --nodes"
        problems.append(Problem(what, "--gpus", hint=hint))
    return nodes, min(gpus or 1, size)


def _choose(partitions: Sequence[Partition], shape: NodeLayout, demand: Demand) -> Partition | None:
    """Return the first partition that runs such a job, else the first that has its nodes."""
    usual = [each for each in partitions if each.gpus and not each.debugging]
    usual = [each for each in usual if shape.whole or not each.exclusive]
    fitting = (each for each in usual if not [*_limits(each, shape.nodes, demand)])
    return next(fitting, usual[0] if usual else None)


def _share(
    platform: Platform, partition: Partition | None, demand: Demand, spread: tuple[int, int]
) -> NodeLayout:
    nodes, gpus = spread
    tasks = demand.tasks or (1 if demand.one_task else gpus or _WITHOUT_GPUS)
    size = partition.gpus if partition else len(platform.gpus)
    exclusive = bool(partition and (partition.exclusive or not partition.gpus))
    whole = exclusive or (gpus == size and bool(partition or platform.gpus))
    share = platform.slurm.share
    cores = _cores(partition, share, tasks, gpus, whole=whole)
    memory = demand.memory
    if memory is None and whole:
        memory = partition.memory if partition else 0
    elif memory is None and gpus and share.memory:
        memory = gpus * share.memory
    return NodeLayout(partition, nodes, tasks, gpus, cores, memory, whole)


def _cores(partition: Partition | None, share: Share, tasks: int, gpus: int, *, whole: bool) -> int:
    """Return the cores of a task, where lumi-entry does not choose them itself."""
    if whole:
        return partition.cores // tasks if partition and not gpus else 0
    return max(1, gpus * share.cores // tasks) if share.cores and gpus else 0


def _faults(
    layout: NodeLayout, demand: Demand, partitions: Sequence[Partition]
) -> Iterator[Problem]:
    if layout.gpus and layout.tasks > layout.gpus:
        what = f"{layout.tasks} tasks per node share {units.count(layout.gpus, 'GPU')}"
        hint = f"write --ntasks-per-node {layout.gpus}, or ask for more GPUs"
        yield Problem(what, "--ntasks-per-node", "each rank needs a GPU", hint)
    if layout.partition is None:
        return
    others = [each for each in partitions if each.gpus or not layout.gpus]
    others = [each for each in others if not [*_limits(each, layout.nodes, demand)]]
    others = [each for each in others if layout.gpus <= each.gpus]
    for problem in _limits(layout.partition, layout.nodes, demand):
        names = " or ".join(f"--partition {each.name}" for each in others)
        yield problem._replace(hint=f"{problem.hint}, or {names}" if names else problem.hint)


def _limits(partition: Partition, nodes: int, demand: Demand) -> Iterator[Problem]:
    """Yield what a partition does not allow."""
    name = partition.name
    if nodes > partition.max_nodes:
        what = (
            f"{name} runs jobs of {units.count(partition.max_nodes, 'node')} at most, not {nodes}"
        )
        yield Problem(what, "--nodes", hint=f"write --nodes {partition.max_nodes}")
    if demand.minutes and demand.minutes > partition.max_time:
        longest = time_words(partition.max_time)
        what = f"{name} runs jobs for {longest} at most, not for {time_words(demand.minutes)}"
        yield Problem(what, "--time", hint=f"write --time {longest}")
    if demand.memory and demand.memory > partition.memory:
        most = f"{partition.memory >> 30}G"
        what = f"a node of {name} has {most} of memory for jobs, not {demand.memory >> 30}G"
        yield Problem(what, "--mem", hint=f"write --mem {most}")
    if demand.jobs > partition.max_jobs:
        what = f"{name} queues {partition.max_jobs} jobs of a user, not {demand.jobs}"
        yield Problem(what, "--array", hint=f"write an array of {partition.max_jobs} jobs or fewer")
