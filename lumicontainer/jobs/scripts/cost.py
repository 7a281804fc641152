"""Compute what a job costs, by the billing rules of its platform."""

from typing import NamedTuple

from lumicontainer.core.model import Billing, Partition, Slurm


class Allocation(NamedTuple):
    """Hold what a job gets on all of its nodes together; the memory is in bytes."""

    nodes: int
    gpus: int
    cores: int
    memory: int


class Cost(NamedTuple):
    """Hold an amount in the unit of the billing rule."""

    amount: float
    unit: str

    def __str__(self) -> str:
        unit = self.unit.removesuffix("s") if self.amount == 1 else self.unit
        return f"{self.amount:,.2f}".rstrip("0").rstrip(".") + f" {unit}"


def hourly_cost(slurm: Slurm, partition: Partition, allocation: Allocation) -> Cost | None:
    """Return what an hour of a job costs; None if the platform has no rule for the partition."""
    rule = next((each for each in slurm.billing if each.name == partition.billing), None)
    if rule is None:
        return None
    if partition.exclusive:
        allocation = whole_nodes(partition, allocation.nodes)
    return Cost(_slices(rule, allocation) * rule.rate, rule.unit)


def cost(slurm: Slurm, partition: Partition, allocation: Allocation, minutes: int) -> Cost | None:
    """Return the cost of a job that runs until its time limit."""
    hour = hourly_cost(slurm, partition, allocation)
    return hour._replace(amount=hour.amount * minutes / 60) if hour else None


def whole_nodes(partition: Partition, nodes: int) -> Allocation:
    """Return all of some nodes of a partition."""
    return Allocation(
        nodes, nodes * partition.gpus, nodes * partition.cores, nodes * partition.memory
    )


def _slices(rule: Billing, allocation: Allocation) -> int:
    shares = [(allocation.cores, rule.cores), (allocation.memory, rule.memory)]
    shares += [(allocation.gpus, rule.gpus)] if rule.gpus else []
    return max(-(-amount // slice_of) for amount, slice_of in shares)
