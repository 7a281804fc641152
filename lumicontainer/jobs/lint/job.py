"""Derive a job from a batch script and an image; None stands for what is not known."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from lumicontainer.core.model import Partition, Platform
from lumicontainer.core.rules.conditions import Fact, Facts
from lumicontainer.inside.node.cpulist import parse_cpus
from lumicontainer.jobs.lint.reading.model import (
    Assignment,
    OptionUse,
    Script,
    Span,
    Start,
    StartedProgram,
)
from lumicontainer.jobs.scripts.cost import Allocation, Cost, hourly_cost

_SIZE = re.compile(r"(\d{1,12})([KMGT]?)B?", re.IGNORECASE)
_POWERS = {"K": 10, "": 20, "M": 20, "G": 30, "T": 40}
_TIME = re.compile(r"(?:(\d{1,5})-)?(\d{1,7})(?::(\d{1,5}))?(?::(\d{1,5}))?")
_UNLIMITED = ("infinite", "unlimited")


class Edit(NamedTuple):
    """Hold a change of the file: the text that takes the place of a part."""

    span: Span
    text: str


class Hit(NamedTuple):
    """Hold a place to which a rule applies, the facts for its texts, and the edits that cure it."""

    span: Span
    facts: Mapping[str, object] = {}
    edits: tuple[Edit, ...] = ()
    level: str = ""
    """In place of the rule's."""


@dataclass(frozen=True)
class BatchJob:
    """Hold a batch script with the platform and the image that it is judged for."""

    script: Script
    platform: Platform
    record: Mapping[str, Any] = field(default_factory=dict)
    """The record of the image; empty without one."""

    def option(self, *names: str) -> OptionUse | None:
        """Return the last ``#SBATCH`` option of these names."""
        matching = (each for each in reversed(self.script.directives) if each.name in names)
        return next(matching, None)

    def number(self, name: str) -> int | None:
        """Return the number that an ``#SBATCH`` option has."""
        option = self.option(name)
        return option.number if option else None

    @cached_property
    def partition(self) -> Partition | None:
        """Return the partition, if the platform describes it."""
        name = self.option("partition")
        rows = self.platform.slurm.partitions
        return next((each for each in rows if name and each.name == name.text), None)

    @cached_property
    def is_batch(self) -> bool:
        """Return whether the script asks Slurm for anything."""
        return bool(self.script.directives)

    @cached_property
    def is_exclusive(self) -> bool:
        """Return whether the job has, and pays for, whole nodes."""
        return bool(self.option("exclusive") or (self.partition and self.partition.exclusive))

    @cached_property
    def nodes(self) -> int | None:
        """Return the number of nodes."""
        if not self.is_batch:
            return None
        if self.option("nodes"):
            return self.number("nodes")
        tasks = self.option("ntasks")
        return 1 if tasks is None or tasks.number == 1 or self.number("ntasks-per-node") else None

    @cached_property
    def tasks_per_node(self) -> int | None:
        """Return the number of tasks on each node."""
        if self.option("ntasks-per-node"):
            return self.number("ntasks-per-node")
        if self.option("ntasks"):
            tasks = self.number("ntasks")
            return -(-tasks // self.nodes) if tasks and self.nodes else None
        if self.option("ntasks-per-gpu"):
            return None
        return 1 if self.is_batch else None

    @cached_property
    def tasks(self) -> int | None:
        """Return the number of tasks on all nodes."""
        if self.number("ntasks"):
            return self.number("ntasks")
        return self.nodes * self.tasks_per_node if self.nodes and self.tasks_per_node else None

    @cached_property
    def gpu_option(self) -> OptionUse | None:
        """Return the option that asks for GPUs."""
        named = self.option("gpus-per-node", "gpus", "gpus-per-task", "ntasks-per-gpu")
        option = self.option("gres")
        return named or (option if option and option.text.startswith("gpu") else None)

    @cached_property
    def gpus(self) -> int | None:
        """Return the GPUs that are asked for on each node."""
        option = self.gpu_option
        if option is None:
            # `--gres` may be a variable; sbatch itself has no option way to ask.
            return 0 if self.is_batch and not self.option("gres", "tres-per-task") else None
        count = re.fullmatch(r"(?:gpu:)?(?:[a-z]\w*:)?(\d{1,4})|gpu", option.text)
        if count is None:
            return None
        many = int(count[1] or 1)
        if option.name == "gpus":
            return -(-many // self.nodes) if self.nodes else None
        if option.name == "gpus-per-task":
            return many * self.tasks_per_node if self.tasks_per_node else None
        return None if option.name == "ntasks-per-gpu" else many

    @cached_property
    def billed_gpus(self) -> int | None:
        """Return the GPUs of each node that the job pays for."""
        if self.partition and self.partition.gpus and self.is_exclusive:
            return self.partition.gpus
        return self.gpus

    @cached_property
    def cores(self) -> int | None:
        """Return the cores of each node."""
        if self.option("cpus-per-gpu"):
            each = self.number("cpus-per-gpu")
            return each * self.gpus if each and self.gpus else None
        each = self.number("cpus-per-task") if self.option("cpus-per-task") else 1
        return each * self.tasks_per_node if each and self.tasks_per_node else None

    @cached_property
    def memory_option(self) -> OptionUse | None:
        """Return the option that asks for memory."""
        return self.option("mem", "mem-per-cpu", "mem-per-gpu")

    @cached_property
    def memory(self) -> int | None:
        """Return the memory on each node, in bytes; 0 is all of it."""
        option = self.memory_option
        size = read_size(option.text) if option else None
        if option is None or size is None:
            return None
        many = {"mem": 1, "mem-per-cpu": self.cores, "mem-per-gpu": self.gpus}[option.name]
        return size * many if many is not None else None

    @cached_property
    def minutes(self) -> int | None:
        """Return the time limit."""
        option = self.option("time")
        return read_minutes(option.text) if option else None

    def hourly_cost(self, *, gpus: int, cores: int = 1, memory: int = 1) -> Cost | None:
        """Return what an hour costs with these shares of each node."""
        if not (self.partition and self.nodes):
            return None
        many = self.nodes
        shares = Allocation(many, many * gpus, many * cores, many * memory)
        return hourly_cost(self.platform.slurm, self.partition, shares)

    @cached_property
    def shared_partition(self) -> Partition | None:
        """Return the first partition where a job with GPUs gets a part of a node."""
        rows = self.platform.slurm.partitions
        fits = (each for each in rows if each.gpus and not each.exclusive and not each.debugging)
        return next(fits, None)

    def tasks_on_node(self, start: Start) -> int | None:
        """Return how many times a command runs on each node."""
        srun = start.srun
        if srun is None:
            return 1
        if option := srun.option("ntasks-per-node"):
            return option.number
        if option := srun.option("ntasks"):
            nodes = srun.option("nodes").number if srun.option("nodes") else self.nodes  # type: ignore[union-attr]
            return -(-option.number // nodes) if option.number and nodes else None
        if not srun.complete or srun.option("ntasks-per-gpu"):
            return None
        return self.tasks_per_node

    @cached_property
    def layers(self) -> Mapping[str, Any]:
        """Return the layers of the image."""
        layers: Mapping[str, Any] = self.record.get("layers", {})
        return layers

    @cached_property
    def facts(self) -> Facts:
        """Return the versions of the image, as the conditions of rules name them."""
        facts: dict[str, tuple[Fact, ...]] = {}
        for name, layer in self.layers.items():
            facts[name] = (Fact(str(layer.get("version") or "")),)
            for parameter, value in (layer.get("parameters") or {}).items():
                facts[f"{name}.{parameter}"] = (Fact(str(value)),)
            for provided, version in (layer.get("provides") or {}).items():
                facts[provided] = (Fact(str(version)),)
        return facts

    @cached_property
    def masks(self) -> tuple[int, ...]:
        """Return the mask of the cores next to each GPU, in the order of the GPUs."""
        return tuple(mask_of(parse_cpus(each.cores)) for each in self.platform.gpus)

    @cached_property
    def shared_folders(self) -> Sequence[str]:
        """Return patterns of the paths that all nodes share."""
        caches = {each.name for each in self.platform.caches}
        rows = (each for each in self.platform.discouraged if each.name in caches)
        return tuple(dict.fromkeys(value for row in rows for value in row.values))

    def visible_settings(self) -> Iterator[Assignment]:
        """Yield the variables that programs see, also those of single commands."""
        yield from (each for each in self.script.settings if each.exported)
        for start in self.script.starts:
            yield from start.command.settings

    def is_used(self, name: str) -> bool:
        """Return whether a shell may expand a variable anywhere in the file."""
        return bool(re.search(rb"\$\{?[!#]?%s\b" % name.encode(), self.script.data))

    def is_literal(self, span: Span, text: str) -> bool:
        """Return whether a text stands in the file as it is."""
        return self.script.text(span) == text

    def insert_option(self, part: StartedProgram, option: str) -> tuple[Edit, ...]:
        """Return the edit that gives a program an option; none if its name is in a variable."""
        if not self.is_literal(part.word.span, part.word.raw) or "$" in part.word.raw:
            return ()
        return (Edit(Span(part.end, part.end), f" {option}"),)


def mask_of(cores: frozenset[int]) -> int:
    """Return cores as the bits of a mask."""
    return sum(1 << core for core in cores)


def read_size(text: str) -> int | None:
    """Return a size of Slurm's in bytes; without a unit it is in megabytes."""
    match = _SIZE.fullmatch(text)
    return int(match[1]) << _POWERS[match[2].upper()] if match else None


def read_minutes(text: str) -> int | None:
    """Return a time of Slurm's in minutes; None for no limit, and for other texts."""
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    days, *parts = match.groups()
    first, second, third = (int(each or 0) for each in parts)
    if days is not None:
        return int(days) * 1440 + first * 60 + second + bool(third)
    if parts[2] is not None:
        return first * 60 + second + bool(third)
    return first + bool(second)


def is_unlimited(text: str) -> bool:
    """Return whether a time means no limit."""
    return text.lower() in _UNLIMITED
