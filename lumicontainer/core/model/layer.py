"""The keys of a layer."""

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple, TypeAlias

from lumicontainer.core.model.check import Checks
from lumicontainer.core.model.content import (
    Content,
    Line,
    Name,
    Names,
    Providers,
    Variant,
    Versions,
)
from lumicontainer.core.model.files import LayerFile
from lumicontainer.core.yaml import readers, validators
from lumicontainer.core.yaml.nodes import Node
from lumicontainer.core.yaml.readers import (
    Text,
    choice,
    described,
    line,
    mapping,
    schema_of,
    text,
)
from lumicontainer.core.yaml.record import Mark, record
from lumicontainer.errors import Place, Problems

Value: TypeAlias = str | int | bool
Summary: TypeAlias = Annotated[str, validators.summary]
Accelerator: TypeAlias = Annotated[str, validators.accelerator]
TYPES: Mapping[str, readers.Reader[Any]] = {
    "string": text,
    "integer": readers.integer,
    "boolean": readers.boolean,
}


class Parameter(NamedTuple):
    """Declare one value that a layer's ``install.sh`` receives as a shell variable."""

    name: str
    type: Annotated[str, choice(tuple(TYPES))]
    """The type of its values."""
    default: Annotated[Value, validators.raw]
    """Its value where a variant, a profile, a recipe and `--set` give none."""
    place: Place
    summary: Summary = ""
    """What it decides, in one line."""
    choices: tuple[Annotated[str, text], ...] = ()
    """Of a string: the values that it can have."""
    unsupported: Mapping[Accelerator, Line] = {}
    """Of a boolean: accelerators for which `true` cannot be built, each with the reason."""


_PARAMETERS = mapping(record("a parameter", Parameter), key=validators.variable)


@described(lambda: schema_of(_PARAMETERS))
def _parameters(node: Node, problems: Problems) -> tuple[Parameter, ...] | None:
    found = _PARAMETERS(node, problems) or {}
    return tuple(each._replace(name=name) for name, each in found.items())


class Bootstrap(NamedTuple):
    """Say where a base image comes from: an agent of Apptainer's and what it needs."""

    agent: Annotated[str, choice(("debootstrap", "docker"))]
    """The program that makes the base: `debootstrap` installs packages, `docker` pulls an image."""
    release: Name = ""
    """For debootstrap: the release, such as bookworm."""
    include: tuple[Annotated[Text, validators.apt_name], ...] = ()
    """For debootstrap: packages that it installs too, such as ca-certificates."""
    image: Annotated[str, validators.docker_image, "docker_image", Mark.REQUIRED] = ""
    """For docker: the base itself. For debootstrap: the same system as an image. A
    Dockerfile begins with it."""
    packages: str = ""
    """The sha256 of the list of packages that debootstrap must have made it of; empty for any."""


class Layer(NamedTuple):
    """Describe one piece of software; everything about it lies in one folder."""

    name: str
    summary: Summary
    """What it is, in one line."""
    place: Place
    version: Annotated[Text | None, line] = None
    """The version to install unless another is asked for. It reaches `install.sh` as `$version`."""
    versions: Versions = {}
    """What each version adds. With this table, other versions are refused."""
    requires: Names = ()
    """Layers that must come before this one."""
    conflicts: Names = ()
    """Layers that exclude this one."""
    parameters: Annotated[tuple[Parameter, ...], _parameters] = ()
    """Values that reach `install.sh` as shell variables."""
    content: Annotated[Content, Mark.SAME_LEVEL] = Content()
    providers: Providers = {}
    """Ways to get the software, such as `source` and `host`. The parameter `provider` chooses; the
    first is the default."""
    variants: Mapping[Accelerator, Annotated[Variant, record("a variant", Variant)]] = {}
    """What is added or changed for an accelerator."""
    bootstrap: Mapping[Accelerator, Annotated[Bootstrap, record("a bootstrap", Bootstrap)]] = {}
    """Of a base: where it comes from, such as `{agent: debootstrap, release: bookworm,
    docker_image: "debian:bookworm"}` or `{agent: docker, docker_image: IMAGE}`."""
    files: tuple[LayerFile, ...] = ()
    checks: Checks = Checks()
    secrets: tuple[Name, ...] = ()
    """Ids of files that the scripts get from `--secret`, as `$secrets/ID`, while they run."""
    not_reproducible: Mapping[Annotated[str, validators.pattern], Line] = {}
    """Paths, with wildcards, that are not the same in two builds, each with the reason. They are
    for `build --check`."""


LAYER = record("layer", Layer)
