"""The keys of a platform's Slurm: its partitions, what they bill, and what srun needs there."""

from typing import Annotated, NamedTuple, TypeAlias

from lumicontainer.core.yaml import readers, validators
from lumicontainer.core.yaml.record import fields_of
from lumicontainer.core.yaml.validators import Line
from lumicontainer.errors import Fault


def _below_one(value: int) -> Fault | None:
    return None if value > 0 else Fault(f"expected a number from 1 on, got {value}")


Amount: TypeAlias = Annotated[int, readers.checked(readers.integer, _below_one, minimum=1)]
Size: TypeAlias = Annotated[int, readers.size]
Minutes: TypeAlias = Annotated[int, readers.duration]
Label: TypeAlias = Annotated[readers.Text, validators.stem]


class Share(NamedTuple):
    """Say how much of a node belongs to one GPU."""

    cores: Amount
    """Its cores."""
    memory: Size
    """Its memory of the host, such as `60G`; in bytes once it is read."""
    source: Line
    """The document that says so."""


class Partition(NamedTuple):
    """Describe one partition, and the largest of its nodes."""

    name: Label
    """Its name in Slurm."""
    nodes: Amount
    """The number of its nodes."""
    cores: Amount
    """The cores of a node that jobs can use."""
    memory: Size
    """The memory of a node that jobs can use."""
    max_time: Minutes
    """The longest time of a job, such as `2d`."""
    max_nodes: Amount
    """The nodes of a job at most."""
    max_jobs: Amount
    """The jobs that a user may have in the queue, running or not."""
    running_jobs: Amount
    """The jobs of a user that run at the same time."""
    billing: Label
    """The row of `billing` by which its jobs are billed."""
    source: Line
    """The document that says so."""
    gpus: Amount = 0
    """The GPUs of a node."""
    exclusive: bool = False
    """Whether a job always gets, and pays for, whole nodes."""
    debugging: bool = False
    """Whether it is for tests only; `lumicontainer job` then takes it by name alone."""


class Billing(NamedTuple):
    """Say what a job costs: an hour costs `rate` for each slice that others cannot use.

    A job takes as many slices as the largest of its shares: cores, memory or GPUs, each rounded up.
    """

    name: Label
    """The name by which partitions refer to it."""
    unit: Line
    """The unit that a project is billed in, such as `GPU-hours`."""
    cores: Amount
    """The cores of a slice."""
    memory: Size
    """The memory of a slice."""
    rate: Annotated[float, readers.number]
    """The units that one slice costs in an hour."""
    source: Line
    """The document that says so."""
    gpus: Amount = 0
    """The GPUs of a slice; without it GPUs are not billed."""


class SrunOption(NamedTuple):
    """Name an option that srun needs on this platform."""

    option: Annotated[str, readers.matching(r"--[a-z][a-z-]*(=[A-Za-z0-9_.,:-]+)?", "an option")]
    """The option, such as `--mpi=pmi2`."""
    reason: Line
    """The reason."""
    source: Line
    """The document that says so."""
    when: Annotated[str, readers.choice(("mpi", "cores"), "condition")] = ""
    """The jobs that need it: with MPI in the image (`mpi`), or with a number of cores for each task
    (`cores`), whose value the option then gets. By default all."""


class Slurm(NamedTuple):
    """Describe the Slurm of a platform."""

    partitions: tuple[Annotated[Partition, fields_of("a partition", Partition)], ...] = ()
    """Its partitions, the first choice first."""
    billing: tuple[Annotated[Billing, fields_of("a billing rule", Billing)], ...] = ()
    """The rules by which jobs are billed."""
    share: Annotated[Share, fields_of("a share", Share)] = Share(0, 0, "")
    """The part of a node that belongs to each GPU."""
    gpu_memory: Size = 0
    """The memory of a GPU (a GCD)."""
    needs_account: bool = False
    """Whether each job must name the project that pays."""
    srun: tuple[Annotated[SrunOption, fields_of("an srun option", SrunOption)], ...] = ()
    """Options of srun, each with its reason."""


ASlurm: TypeAlias = Annotated[Slurm, fields_of("slurm", Slurm)]
