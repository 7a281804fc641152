"""Write the text of a batch script."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from lumicontainer.core.model import Slurm, SrunOption
from lumicontainer.core.render.jinja import fill
from lumicontainer.jobs.scripts import chain
from lumicontainer.jobs.scripts.chain import Chain
from lumicontainer.jobs.scripts.layout import NodeLayout
from lumicontainer.jobs.scripts.times import sbatch_time

_ARRAY = re.compile(r"(?a)(\d{1,7})(?:-(\d{1,7})(?::(\d{1,7}))?)?")
_ONE = r"(?:after|afterany|afterok|afternotok|aftercorr)(?::\d+(?:_\d+)?(?:\+\d+)?)+|singleton"
DEPENDENCY = re.compile(rf"(?a)(?:{_ONE})(?:,(?:{_ONE}))*")
"""The form of sbatch's ``--dependency``."""
_USUAL = (
    SrunOption(
        "--kill-on-bad-exit=1",
        "a rank that fails or is killed ends the others, which would wait for it",
        "srun(1)",
    ),
    SrunOption("--mpi=pmi2", "MPI in the image starts through PMI2", "srun(1)", "mpi"),
    SrunOption("--cpus-per-task", "srun does not inherit it from sbatch", "srun(1)", "cores"),
)
"""The options of srun on platforms that name none."""
_SIZES = ((1 << 30, "G"), (1 << 20, "M"))


class JobHeader(NamedTuple):
    """Hold what a job says of itself, besides its layout; empty texts say nothing."""

    name: str
    minutes: int | None = None
    partition: str = ""
    account: str = ""
    array: str = ""
    dependency: str = ""
    output: str = ""
    chained: bool = False
    """Whether the job sends itself again until its program is done."""


class Body(NamedTuple):
    """Hold what a job runs as each task."""

    binds: str
    """The value of SINGULARITY_BIND."""
    engine: Sequence[str]
    """The command that starts the image."""
    command: Sequence[str]
    has_mpi: bool = False
    chain: Chain | None = None


class BatchOption(NamedTuple):
    """Hold an option of sbatch, and in a word why it is there."""

    name: str
    value: str = ""
    why: str = ""

    @property
    def word(self) -> str:
        """Return it as a word of the command line."""
        return f"--{self.name}={self.value}" if self.value else f"--{self.name}"


def batch_options(layout: NodeLayout, header: JobHeader) -> list[BatchOption]:
    """Return what a job asks sbatch for."""
    return [*_of_header(header, layout), *_of_layout(layout)]


def batch_script(
    slurm: Slurm, layout: NodeLayout, options: Sequence[BatchOption], body: Body
) -> str:
    """Return the text of a batch script, which needs no lumicontainer on the nodes."""
    cores = str(layout.cores or "")
    conditions = {"": True, "mpi": body.has_mpi, "cores": bool(cores)}
    rows = [each for each in slurm.srun or _USUAL if conditions[each.when]]
    words = [f"{each.option}={cores}" if each.when == "cores" else each.option for each in rows]
    return fill(
        "batch.sh.j2",
        options=options,
        binds=body.binds,
        srun=list(zip(words, [each.reason for each in rows], strict=True)),
        engine=body.engine,
        command=body.command,
        chain=body.chain,
    )


def _of_header(header: JobHeader, layout: NodeLayout) -> list[BatchOption]:
    options = [
        BatchOption("job-name", header.name),
        BatchOption("partition", layout.partition.name if layout.partition else header.partition),
        BatchOption("account", header.account, "the project that pays"),
        BatchOption("time", sbatch_time(header.minutes) if header.minutes else ""),
        BatchOption("array", header.array),
        BatchOption("dependency", header.dependency),
        BatchOption("output", header.output),
    ]
    more = chain.OPTIONS if header.chained else ()
    return [each for each in options if each.value] + [BatchOption(*each) for each in more]


def _of_layout(layout: NodeLayout) -> list[BatchOption]:
    whole = layout.whole and not (layout.partition and layout.partition.exclusive)
    several = layout.gpus > 1
    why = {layout.gpus: "one for each GPU", 1: "it starts a rank for each GPU"}
    options = [
        BatchOption("nodes", str(layout.nodes)),
        BatchOption(
            "ntasks-per-node", str(layout.tasks), why.get(layout.tasks, "") if several else ""
        ),
    ]
    if layout.gpus:
        reason = "not per task: each rank reaches the memory of all GPUs" if several else ""
        options.append(BatchOption("gpus-per-node", str(layout.gpus), reason))
    if layout.cores:
        options.append(BatchOption("cpus-per-task", str(layout.cores), "the share of its GPUs"))
    options += [BatchOption("exclusive", why="whole nodes")] if whole else []
    if layout.memory is not None:
        options.append(BatchOption("mem", _size(layout.memory)))
    return options


def _size(memory: int) -> str:
    """Return a size as sbatch reads it; 0 stands for all."""
    unit, letter = next((each for each in _SIZES if memory % each[0] == 0), _SIZES[-1])
    return f"{-(-memory // unit)}{letter}" if memory else "0"


def array_size(text: str) -> int | None:
    """Return the number of jobs of an array such as ``0-7`` or ``1,3,5-9:2%4``; None if invalid."""
    numbers, percent, limit = text.partition("%")
    if percent and not re.fullmatch(r"(?a)[1-9]\d{0,6}", limit):
        return None
    parts = [_ARRAY.fullmatch(part) for part in numbers.split(",")]
    total = 0
    for part in parts:
        if part is None or (part[3] and not int(part[3])):
            return None
        first = int(part[1])
        total += len(range(first, int(part[2] or first) + 1, int(part[3] or 1)))
    return total or None
