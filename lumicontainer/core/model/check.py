"""The keys of a check: the comment at the head of its script."""

from collections.abc import Mapping
from typing import Annotated, NamedTuple

from lumicontainer.constants import LONGEST_CHECK
from lumicontainer.core.model.files import LayerFile
from lumicontainer.core.yaml import validators
from lumicontainer.core.yaml.nodes import Node
from lumicontainer.core.yaml.readers import checked, choice, integer, schema_of, with_schema
from lumicontainer.core.yaml.record import fields_of
from lumicontainer.core.yaml.validators import Line, Name
from lumicontainer.errors import Fault, Problems

FOLDER = "checks/"
"""The folder of checks in a layer's folder."""
IMAGE, HOST = "image", "host"
"""The owners of the checks that every image has, and of those that the host makes of it."""
LEVELS = ("quick", "full", "perf")
"""The levels, each with the lower ones: seconds, minutes, and benchmarks."""
RUNS = ("once", "node", "ranks")
START_MODES = ("exec", "run", "shell", "cleanenv", "containall", "no-home", "umask")


class CheckNeeds(NamedTuple):
    """Say what a check needs of the place that it runs in."""

    gpus: int = 0
    """The number of GPUs."""
    architecture: Name = ""
    """The architecture of the GPUs, such as gfx90a; without it, any that PyTorch can use."""
    nodes: int = 1
    """The number of nodes."""
    tasks: int = 1
    """The number of ranks."""
    network: Name = ""
    """The kind of network device: `cxi` is Slingshot's."""
    mpi: bool = False
    """Whether its ranks find each other by MPI."""


class Threshold(NamedTuple):
    """Hold the limit of a measured value, ``minimum`` or ``maximum``, and its source."""

    unit: Line
    """The unit of the value."""
    source: Line
    """The origin of the limit."""
    minimum: float | None = None
    """The least value that passes."""
    maximum: float | None = None
    """The greatest value that passes."""
    reference: float | None = None
    """A value that was measured elsewhere; a report shows the ratio to it."""
    architecture: Name = ""
    """The architecture of the GPUs that it is true of; on others it is not judged."""


_THRESHOLD = fields_of("a threshold", Threshold)


@with_schema(lambda: schema_of(_THRESHOLD))
def _threshold(node: Node, problems: Problems) -> Threshold | None:
    before = len(problems.noted)
    threshold = _THRESHOLD(node, problems)
    if threshold is None or len(problems.noted) > before:
        return None
    limits = (threshold.minimum is not None) + (threshold.maximum is not None)
    if limits == 2 or not (limits or threshold.reference is not None):
        what = "a threshold has either a minimum or a maximum"
        why = "without either there is a reference, and nothing is judged"
        problems.add(what, node.place, why=why, hint="add minimum or maximum")
    return threshold


def _timeout(value: int) -> Fault | None:
    if 1 <= value <= LONGEST_CHECK:
        return None
    return Fault(f"invalid time limit {value}", hint=f"write seconds from 1 to {LONGEST_CHECK}")


class Check(NamedTuple):
    """Describe what must hold in an image, and the script that finds out."""

    name: str
    """The layer it belongs to, and the file's own name: pytorch/accelerator."""
    file: LayerFile
    summary: Line
    """The fact that holds if it passes."""
    hint: Line
    """The action to take if it fails."""
    level: Annotated[str, choice(LEVELS, "level")] = LEVELS[0]
    """When it runs. Each build runs the quick ones."""
    runs: Annotated[str, choice(RUNS, "value of runs")] = RUNS[0]
    """Where it runs: on one process, on one process of each `node`, or as `ranks` that work
    together."""
    timeout_seconds: Annotated[
        int, checked(integer, _timeout, minimum=1, maximum=LONGEST_CHECK)
    ] = 60
    """The time limit."""
    needs: Annotated[CheckNeeds, fields_of("needs", CheckNeeds)] = CheckNeeds()
    """Its needs, such as a GPU; without them the check is skipped, with the reason."""
    thresholds: Mapping[Annotated[str, validators.variable], Annotated[Threshold, _threshold]] = {}
    """Limits of measured values: each has a `minimum`, a `maximum`, or only a `reference`."""
    imports: tuple[Line, ...] = ()
    """Modules that a check in Python imports first. `lumi-verify` imports them once for all checks
    that name them, unless there are GPUs."""
    start_modes: tuple[Annotated[str, choice(START_MODES, "start mode")], ...] = ()
    """Further ways to start a container in which it must hold, besides the plain one."""
    reads: tuple[Annotated[str, validators.pattern], ...] = ()
    """Patterns of the paths that it reads, such as `/etc/ssl/*`, beside what runs it: programs,
    libraries, links, Python's modules. Where all of that is as it was, it is not run again by a
    build. Without it, it reads the whole image."""
    each_path: bool = False
    """Whether it judges each path by itself too, by what it `reads`. It then finds the paths that
    are new to it in `lumi_inside.image.due`."""


CHECK = fields_of("a check", Check)


class Checks(NamedTuple):
    """Hold the files of a folder of checks, and the checks among them."""

    files: tuple[LayerFile, ...] = ()
    each: tuple[Check, ...] = ()
