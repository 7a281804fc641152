"""The types that users write: recipes, layers, platforms. They hold values and do nothing.

They are named tuples, for it takes Python six times as long to make a frozen dataclass, and every
command makes all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from lumicontainer.core.nodes import Node
from lumicontainer.errors import Place

Value: TypeAlias = str | int | bool


class Parameter(NamedTuple):
    """Declare one value that a layer's ``install.sh`` receives as a shell variable."""

    name: str
    type: str
    default: Value
    place: Place
    summary: str = ""
    choices: tuple[str, ...] = ()
    unsupported: Mapping[str, str] = {}
    """For a boolean: the accelerators for which ``true`` cannot be built, each with the reason."""


class SdistSource(NamedTuple):
    """Name one Python source distribution; it is pinned where ``sha256`` is known."""

    sdist: str
    sha256: str = ""


class GitSource(NamedTuple):
    """Name one commit of a git repository; it is pinned where ``commit`` is whole (40 digits)."""

    git: str
    commit: str
    folder: str
    submodules: bool = False


class UrlSource(NamedTuple):
    """Name one file to download; it is pinned where ``sha256`` is known."""

    url: str
    file: str
    sha256: str = ""


Source: TypeAlias = SdistSource | GitSource | UrlSource


class PipInstall(NamedTuple):
    """Name a Python package that a layer's script installs by pip itself, in the layer's version.

    A build without a lock leaves it to the script; with one it is installed before.
    """

    package: str
    index_parameter: str = ""
    """The layer's parameter that names the index that is asked before the configured one."""


class Bind(NamedTuple):
    """Name a host path that containers need, and why."""

    path: str
    reason: str
    source: str = ""


class Content(NamedTuple):
    """Hold what a layer puts into an image, or a part of it: a variant, a provider, a version."""

    apt: tuple[str, ...] = ()
    apt_repositories: str = ""
    """The file that adds repositories for apt, before anything is installed; empty for none."""
    python: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()
    environment: Mapping[str, str] = {}
    path: tuple[str, ...] = ()
    provides: Mapping[str, str] = {}
    """The versions of what comes with it under other names: ``glibc``, ``libfabric`` …"""
    apt_versions: Mapping[str, str] = {}
    """The versions of what a base's repositories have, where a layer installs it."""
    binds: tuple[Bind, ...] = ()
    """What of the host is seen in the image, beside what its platform binds."""
    host_libraries: tuple[Bind, ...] = ()
    """Libraries of the host that are seen in the image with all that they need; what that is, is
    found out on the host when the image is started."""
    image: str = ""
    """Of a base: the image that it is, in place of the one that its bootstrap names."""
    pip_installs: tuple[PipInstall, ...] = ()
    locked: tuple[str, ...] = ()
    """Lines of pip's requirements, each with its hash, in place of ``python`` and ``takes``."""
    indexed: Mapping[str, tuple[str, ...]] = {}
    """Such lines by the URL of the index that is asked for them beside the configured one."""
    places: Mapping[str, Place] = {}
    """Where ``apt`` and ``python`` are named, by their words."""


class Provider(NamedTuple):
    """Hold what one way of coming by a layer's software adds, or why it means to do without."""

    content: Content = Content()
    versions: Mapping[str, Content] = {}
    omit: str = ""


class Variant(NamedTuple):
    """Say how a layer differs for one accelerator, or why it is left out there."""

    content: Content = Content()
    versions: Mapping[str, Content] = {}
    providers: Mapping[str, Provider] = {}
    parameters: Mapping[str, tuple[Node, Place]] = {}
    requires: tuple[str, ...] = ()
    """What must stand before it there, beside what the layer requires everywhere."""
    omit: str = ""
    install: str = ""
    """The file that installs it, where that is not install.sh."""
    compile: str = ""
    """The file that compiles its wheels, where that is not compile.sh."""


class Bootstrap(NamedTuple):
    """Say where a base image comes from: an agent of Apptainer's and what it needs."""

    agent: str
    release: str = ""
    include: tuple[str, ...] = ()
    image: str = ""
    """The base itself for the agent ``docker``, with its digest where it is known; otherwise the
    same system as a Docker image, for engines that start from one."""
    packages: str = ""
    """The sha256 of the list of packages that debootstrap must have made it of; empty for any."""


class LayerFile(NamedTuple):
    """Hold one file of a layer's folder; ``mode`` is 0o644 or 0o755, as git keeps it."""

    name: str
    mode: int
    content: bytes


class CheckNeeds(NamedTuple):
    """Say what a check needs of the place that it runs in; what is not said, it does not."""

    gpus: int = 0
    architecture: str = ""
    """Of the GPUs, such as gfx90a; empty for any that PyTorch can use."""
    nodes: int = 1
    tasks: int = 1
    network: str = ""
    """The kind of network device: cxi is Slingshot's."""
    mpi: bool = False
    """Whether its ranks find each other by MPI."""


class Threshold(NamedTuple):
    """Hold the limit of a measured value, ``minimum`` or ``maximum``, and its source."""

    unit: str
    source: str
    minimum: float | None = None
    maximum: float | None = None
    reference: float | None = None
    """What was measured elsewhere; a report shows the ratio to it."""
    architecture: str = ""
    """The architecture of GPU that it was measured on; on others it is not judged."""


class Check(NamedTuple):
    """Describe what must hold in an image, and the script that finds out."""

    name: str
    """The layer it belongs to, and the file's own name: pytorch/accelerator."""
    file: LayerFile
    summary: str
    hint: str
    level: str
    runs: str
    timeout_seconds: int
    """The time after which it is ended and has failed."""
    needs: CheckNeeds = CheckNeeds()
    thresholds: Mapping[str, Threshold] = {}
    start_modes: tuple[str, ...] = ()
    """The ways of starting a container in which it must hold, beside the plain one."""


class Checks(NamedTuple):
    """Hold the files of a folder of checks, and what those of them say that are checks."""

    files: tuple[LayerFile, ...] = ()
    each: tuple[Check, ...] = ()


class Layer(NamedTuple):
    """Describe one piece of software; everything about it lies in one folder."""

    name: str
    summary: str
    place: Place
    requires: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    places: Mapping[str, Place] = {}
    """Where it and its variants name other layers, by their names."""
    parameters: tuple[Parameter, ...] = ()
    content: Content = Content()
    versions: Mapping[str, Content] = {}
    """What each value of ``version`` adds; where it is not empty, there are no other values."""
    providers: Mapping[str, Provider] = {}
    """What each value of ``provider`` adds, the default one first."""
    variants: Mapping[str, Variant] = {}
    bootstrap: Mapping[str, Bootstrap] = {}
    files: tuple[LayerFile, ...] = ()
    checks: Checks = Checks()
    secrets: tuple[str, ...] = ()
    """The ids of files that its scripts get for the time that they run."""
    not_reproducible: Mapping[str, str] = {}
    """Paths (with wildcards) that are not the same in two builds, each with the reason."""


class LayerUse(NamedTuple):
    """Name a layer in a recipe, with the values that the recipe gives its parameters."""

    layer: str
    place: Place
    values: Mapping[str, tuple[Node, Place]] = {}


class Recipe(NamedTuple):
    """Say what goes into an image: a base and layers, in order."""

    name: str
    summary: str
    place: Place
    base: LayerUse
    layers: tuple[LayerUse, ...]
    text: str
    profiles: Mapping[str, Place] = {}
    """The sets of versions that it is meant for, the preferred ones first."""


class Profile(NamedTuple):
    """Hold values that go together: versions of several layers that are known to work as one."""

    name: str
    summary: str
    place: Place
    accelerator: str
    base: LayerUse | None = None
    """What stands in the place of a recipe's base."""
    values: tuple[LayerUse, ...] = ()


class Gpu(NamedTuple):
    """Describe one GPU (a GCD) of a node: where it is, and the cores next to it."""

    pci: str
    cores: str
    """What its rank may use, as the kernel writes lists of processors: ``49-55``."""
    numa: int
    reserved: str = ""
    """Cores next to it that are the system's own."""


class Variable(NamedTuple):
    """Set a variable for every rank, where the user has not, under conditions."""

    name: str
    reason: str
    source: str
    value: str = ""
    value_from: str = ""
    """What the value is found from at the start of a rank, where it is none that is written."""
    when: Mapping[str, str] = {}
    """The conditions, of which all must hold; see ``inside/variables.py``."""
    unless_set: tuple[str, ...] = ()
    """Other names of the same: where the user sets one, this variable is left alone."""


class Discouraged(NamedTuple):
    """Name a variable that does harm where a user exports it, under conditions."""

    name: str
    reason: str
    source: str
    hint: str
    values: tuple[str, ...] = ()
    """Those that are meant, with ``*`` for any text; all where none is said here or below."""
    allowed_values: tuple[str, ...] = ()
    """Those that are not meant, where all others are."""
    when: Mapping[str, str] = {}


class CacheFolder(NamedTuple):
    """Name the folder that a variable is set to; ``place`` is what it lies in."""

    name: str
    folder: str
    storage: str
    reason: str
    source: str


class Platform(NamedTuple):
    """Describe one place where images run."""

    name: str
    summary: str
    accelerator: str
    place: Place
    detect: tuple[str, ...] = ()
    """Host paths that are all there on this platform, and together nowhere else."""
    driver: str = ""
    """The version of the GPUs' driver in the kernel; empty where it is not known."""
    profile: str = ""
    """What recipes are built with there, where nothing else is asked for."""
    engine: str = ""
    """The program that runs images there; empty where it is that of the host that builds."""
    proot: str = ""
    """The line by which users without user namespaces build a definition there, with PRoot."""
    binds: tuple[Bind, ...] = ()
    gpus: tuple[Gpu, ...] = ()
    """In the order of ROCr, the runtime below HIP."""
    interface_prefix: str = ""
    """What the names of the network's interfaces begin with."""
    variables: tuple[Variable, ...] = ()
    discouraged: tuple[Discouraged, ...] = ()
    caches: tuple[CacheFolder, ...] = ()
