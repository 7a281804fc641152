"""The keys of a platform: where it is, what its nodes are like, what its ranks need."""

from collections.abc import Mapping, Sequence
from typing import Annotated, NamedTuple, TypeAlias

from lumicontainer.constants import ENGINES, FORMAT
from lumicontainer.core.model.layer import ABind, AnExpects, Expects
from lumicontainer.core.model.slurm import ASlurm, Slurm
from lumicontainer.core.yaml import ranges, readers, validators
from lumicontainer.core.yaml.nodes import Node
from lumicontainer.core.yaml.record import fields_of, table_of
from lumicontainer.core.yaml.validators import Accelerator, Format, Line, Summary
from lumicontainer.errors import Fault, Place, Problems
from lumicontainer.inside import environment as inside
from lumicontainer.inside.node import cpulist

COMPRESSIONS = ("gzip", "zstd")
STORAGE = ("node", "job", "scratch", "home")
DEVICES = ("cxi",)
"""Classes of devices in the kernel."""

Constant: TypeAlias = Annotated[readers.Text, validators.constant]
AnyVariable: TypeAlias = Annotated[readers.Text, validators.variable]
Limits: TypeAlias = Annotated[str, ranges.limits]
Count: TypeAlias = Annotated[str, ranges.count]
Cpus: TypeAlias = Annotated[str, ranges.cpus]


class Conditions(NamedTuple):
    """Say when a row of a table holds; each condition is empty or must hold."""

    rocm: Limits = ""
    """The range of ROCm's version in the image: `<6.2`, `>=6.2,<7.0`, or `6.4` for all 6.4.x."""
    plugin: Annotated[str, ranges.plugin] = ""
    """The network plugin of the image: `any`, or `aws-ofi-nccl >=1.20`."""
    pytorch: Limits = ""
    """The range of PyTorch's version in the image."""
    jax: Limits = ""
    """The range of JAX's version in the image."""
    libfabric: Limits = ""
    """The range of libfabric's version in the image."""
    slingshot: Limits = ""
    """The range of the version of Slingshot's libraries in the image."""
    nodes: Count = ""
    """The range of the number of nodes: `>1`."""
    ranks: Count = ""
    """The range of the number of ranks: `>1`."""
    device: Annotated[str, readers.choice(DEVICES, "device")] = ""
    """A device of the node: `cxi` is Slingshot's."""
    network: Annotated[str, validators.network_word] = ""
    """A word of srun's `--network`."""


When: TypeAlias = Annotated[Mapping[str, str], table_of("when", Conditions)]


def _negative(value: int) -> Fault | None:
    return Fault("NUMA nodes are counted from 0") if value < 0 else None


class Gpu(NamedTuple):
    """Describe one GPU (a GCD) of a node: where it is, and the cores next to it."""

    pci: Annotated[str, validators.pci]
    """Its PCI address."""
    cores: Cpus
    """The cores next to it that its rank may use, such as `49-55`."""
    numa: Annotated[int, readers.checked(readers.integer, _negative, minimum=0)]
    """Its NUMA node."""
    reserved: Cpus = ""
    """The cores next to it that are the system's own."""


_GPU = fields_of("a gpu", Gpu)


@readers.with_schema(lambda: {"type": "array", "items": readers.schema_of(_GPU)})
def _gpus(node: Node, problems: Problems) -> tuple[Gpu, ...] | None:
    before = len(problems.noted)
    rows = readers.sequence(readers.with_place(_GPU))(node, problems)
    if rows is None or len(problems.noted) > before:
        return None
    _check_gpus(rows, problems)
    return tuple(gpu for gpu, _ in rows)


def _check_gpus(gpus: Sequence[tuple[Gpu, Place]], problems: Problems) -> None:
    addresses: dict[str, Place] = {}
    owners: dict[int, Place] = {}
    reserved = {core for gpu, _ in gpus for core in cpulist.parse_cpus(gpu.reserved)}
    for gpu, place in gpus:
        problems.twice(f"duplicate GPU {gpu.pci}", gpu.pci, place, addresses, "")
        own = cpulist.parse_cpus(gpu.cores)
        if own & reserved:
            why = "'reserved' keeps it for the system"
            problems.add(f"no rank may use {_words(own & reserved)}", place, why=why)
        shared = own & owners.keys()
        if shared:
            why = f"the GPU at line {owners[min(shared)].line} has them as well"
            hint = "give each core to the GPU next to it"
            problems.add(f"two GPUs share {_words(shared)}", place, why=why, hint=hint)
        owners |= dict.fromkeys(own, place)


def _words(cores: frozenset[int]) -> str:
    return f"core{'s'[: len(cores) > 1]} {', '.join(map(str, sorted(cores)))}"


class Variable(NamedTuple):
    """Set a variable for every rank, unless the user has set it, under conditions."""

    name: Constant
    """The name of the variable. Two rows of one variable must exclude each other by `when`."""
    reason: Line
    """The reason."""
    source: Line
    """The document that says so."""
    value: Line = ""
    """The value."""
    value_from: Annotated[str, readers.choice((inside.INTERFACES, inside.LOGS), "value_from")] = ""
    """A value that is found on the node: the network interfaces that are up (`interfaces`), or the
    prefix of the flight recorder's files (`logs`)."""
    when: When = {}
    """The conditions, which must all hold when the rank starts."""
    unless_set: tuple[AnyVariable, ...] = ()
    """Other names of the same variable: if the user sets one, it is used."""


class Discouraged(NamedTuple):
    """Name a variable that does harm if a user exports it, under conditions."""

    name: AnyVariable
    """The name of the variable."""
    reason: Line
    """The reason."""
    source: Line
    """The document that says so."""
    hint: Line
    """The better value or action."""
    values: tuple[Line, ...] = ()
    """The values that do harm, with `*` for any text and `[!x]` for any character but `x`. Without
    it and `allowed_values`, all do."""
    allowed_values: tuple[Line, ...] = ()
    """The values that do no harm, instead of `values`."""
    when: When = {}
    """The conditions, which must all hold when the rank starts."""


ADiscouraged: TypeAlias = Annotated[Discouraged, fields_of("a discouraged variable", Discouraged)]


class Advised(NamedTuple):
    """Name a value that should help, and that is only advised until the platform confirms it."""

    name: Constant
    """The name of the variable."""
    value: Line
    """The value. Whoever exports it opts in."""
    reason: Line
    """The reason."""
    source: Line
    """The document that says so."""
    when: When = {}
    """The conditions, which must all hold when the rank starts."""


class CacheFolder(NamedTuple):
    """Name the folder that a variable is set to."""

    name: AnyVariable
    """The name of the variable."""
    folder: Annotated[str, validators.folder]
    """The folder, or the file, that it is set to."""
    storage: Annotated[str, readers.choice(STORAGE, "storage")]
    """The storage of the folder: the node's own memory or disk, for a step (`node`) or all steps of
    a job (`job`), the user's folder on the project's /scratch, or `~/.cache` (`home`)."""
    reason: Line
    """The reason."""
    source: Line
    """The document that says so."""


class Platform(NamedTuple):
    """Describe one place where images run."""

    name: str
    summary: Summary
    """A description, in one line."""
    accelerator: Accelerator
    """The accelerator of its nodes."""
    place: Place
    detect: tuple[Annotated[str, validators.absolute], ...] = ()
    """Paths that all exist on this platform, and on no other."""
    driver: Annotated[str, validators.driver] = ""
    """The version of the GPU driver in the kernel."""
    profile: Annotated[str, validators.stem] = ""
    """The profile to use unless another is asked for."""
    engine: Annotated[str, readers.choice(ENGINES, "engine")] = ""
    """The program that runs images there."""
    compression: Annotated[str, readers.choice(COMPRESSIONS, "compression")] = "zstd"
    """The compression of images, which the engine and the kernel there can read."""
    proot: Line = ""
    """The command that builds a definition where users have no user namespaces; `RECIPE` stands for
    the recipe's name."""
    expects: AnExpects = Expects()
    """The memory and the disk that building its largest image takes. `doctor` reports it."""
    binds: tuple[ABind, ...] = ()
    """Paths of the host that containers need."""
    gpus: Annotated[tuple[Gpu, ...], _gpus] = ()
    """The GPUs of a node, in the order of ROCr, the runtime below HIP."""
    interface_prefix: Annotated[str, validators.interface_prefix] = ""
    """The beginning of the names of the network interfaces."""
    variables: tuple[Annotated[Variable, fields_of("a variable", Variable)], ...] = ()
    """Variables for every rank. A value that the user sets, even an empty one, stays: `export
    NCCL_NET=` switches a row off."""
    discouraged: tuple[ADiscouraged, ...] = ()
    """Variables that do harm if a user exports them."""
    advised: tuple[Annotated[Advised, fields_of("an advised variable", Advised)], ...] = ()
    """Variables that no rank gets by itself: one rank warns if the user has not set them."""
    caches: tuple[Annotated[CacheFolder, fields_of("a cache", CacheFolder)], ...] = ()
    """Variables that name a cache, and the folder for it."""
    slurm: ASlurm = Slurm()
    """Its Slurm: partitions, what they bill, and what srun needs."""
    format: Format = FORMAT
    """The format of the document: 1. It changes if a key is renamed or removed."""


PLATFORM = fields_of("platform", Platform)
