"""The keys of a layer, and of its variants, providers and versions."""

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple, TypeAlias

from lumicontainer.constants import FORMAT
from lumicontainer.core.model.check import Checks
from lumicontainer.core.model.files import LayerFile, Value
from lumicontainer.core.model.requirements import requirement
from lumicontainer.core.model.source import Source, read_sources
from lumicontainer.core.yaml import readers, validators
from lumicontainer.core.yaml.nodes import Node, Scalar, Sequence
from lumicontainer.core.yaml.readers import (
    Text,
    choice,
    line,
    mapping,
    schema_of,
    text,
    with_schema,
)
from lumicontainer.core.yaml.record import SAME_LEVEL, fields_of
from lumicontainer.core.yaml.validators import (
    Accelerator,
    Format,
    Line,
    Name,
    Names,
    Script,
    Summary,
)
from lumicontainer.errors import Place, Problems

LOCALIMAGE = "localimage"
"""The agent of a base that is an image file."""


Folders: TypeAlias = tuple[Annotated[str, validators.absolute], ...]


class Packages(NamedTuple):
    """Name packages that are installed before ``install.sh``."""

    apt: tuple[Annotated[str, validators.apt_package], ...] = ()
    """Debian packages: `name` or `name=version`."""
    python: tuple[Annotated[str, requirement], ...] = ()
    """Python packages: `name` with versions and extras. URLs, paths and options of pip are refused,
    also in `requirements.txt`, `tools.txt` and `build.txt`."""


class PipInstall(NamedTuple):
    """Name a Python package that a layer's script installs by pip itself."""

    package: Name
    """The name of the package."""
    index_parameter: Annotated[str, validators.variable] = ""
    """The parameter with the URL of the index that is searched before the configured one."""


APackage: TypeAlias = Annotated[PipInstall, fields_of("a package of pip_installs", PipInstall)]


class Bind(NamedTuple):
    """Name a host path that containers need, and why."""

    path: Annotated[str, validators.absolute]
    """The path on the host."""
    reason: Line
    """The reason."""
    source: Line = ""
    """The document that says so."""
    file: bool = False
    """Whether it is a file; without it, it is a folder. The image gets an empty one to mount it on,
    if it has nothing at that path."""


ABind: TypeAlias = Annotated[Bind, fields_of("a bind", Bind)]


class HostLibrary(NamedTuple):
    """Name a library of the host that containers need, and why."""

    path: Annotated[str, validators.host_library]
    """Its path on the host. In `${VARIABLE:-/folder/*}/path` the folder is the variable's when a
    container starts, else the newest that is there."""
    reason: Line
    """The reason."""
    source: Line = ""
    """The document that says so."""


AHostLibrary: TypeAlias = Annotated[HostLibrary, fields_of("a library of the host", HostLibrary)]


class Expects(NamedTuple):
    """Say what a build takes of its host; it decides neither a key nor the content."""

    size: Annotated[int, readers.size] = 0
    """The bytes of the files, unpacked, such as `20G`. A build requires that much disk space."""
    memory_per_job: Annotated[int, readers.size] = 0
    """The memory of one compile job, such as `9G`; 2G if it is not given. Fewer jobs run where less
    is free."""


AnExpects: TypeAlias = Annotated[Expects, fields_of("expects", Expects)]


class BuiltSource(NamedTuple):
    """Hold lines of pip's requirements for a source that is built with locked packages."""

    source: tuple[str, ...]
    """The source with its hash, and the options by which pip finds it."""
    needs: tuple[str, ...]
    """The packages that build it."""


class Content(NamedTuple):
    """Hold what a layer puts into an image, or a part of it: a variant, a provider, a version."""

    packages: Annotated[Packages, fields_of("packages", Packages)] = Packages()
    """Packages that are installed before `install.sh`."""
    apt_repositories: Script = ""
    """A script of the layer's folder that adds apt repositories. It runs before `packages` are
    installed and before `lock` asks for them. The layer's `sources`, such as a key, are there;
    programs that it calls must come from earlier layers."""
    sources: Annotated[tuple[Source, ...], read_sources] = ()
    """Sources to download. Sources of `git` and `url` are in `$sources` when the script begins."""
    environment: Mapping[Annotated[str, validators.constant], Annotated[str, text]] = {}
    """Variables that the image sets. Values arrive as written, with `~` and newlines; a Dockerfile
    cannot hold a newline. `$NAME` is refused: `prepend` puts folders in front of a variable's
    value.
    """
    path: tuple[Annotated[str, validators.absolute], ...] = ()
    """Folders that are put before PATH."""
    prepend: Mapping[Annotated[str, validators.constant], Folders] = {}
    """Folders that are put in front of a variable's value, such as
    `{LD_LIBRARY_PATH: [/opt/a/lib]}`."""
    provides: Mapping[Name, Line] = {}
    """Versions of what comes with the layer under another name, such as `{glibc: "2.36"}`, for
    rules and for `lumi-entry`. `{python: "3.12"}` says that the image has Python."""
    apt_versions: Mapping[Name, Line] = {}
    """Of a base: versions of what its repositories have, for rules and for `lock`, such as
    `{python: "3.11"}`."""
    binds: tuple[ABind, ...] = ()
    """Paths of the host that an image with this layer needs."""
    host_libraries: tuple[AHostLibrary, ...] = ()
    """Libraries of the host that an image with this layer needs. Their own dependencies are found
    on the host."""
    pip_installs: tuple[APackage, ...] = ()
    """Packages that the script installs with pip itself, in the layer's version. `lock` pins them,
    and a locked build installs them first."""
    expects: AnExpects = Expects()
    """The memory and the disk that building it takes."""
    image: str = ""
    """Of a base: its image, instead of the one that its bootstrap names."""
    apt_hashes: tuple[str, ...] = ()
    """Of a lock: lines of a Debian package, as `name=version`, and the sha256 of its file."""
    locked: tuple[str, ...] = ()
    """Lines of pip's requirements, each with its hash, instead of the packages by name."""
    indexed: Mapping[str, tuple[str, ...]] = {}
    """Such lines by the URL of an index that is searched for them, besides the configured one."""
    built: tuple[BuiltSource, ...] = ()
    """The sources of a lock that are built with packages of the lock; the others need none."""

    @property
    def apt(self) -> tuple[str, ...]:
        """Return the Debian packages."""
        return self.packages.apt

    @property
    def python(self) -> tuple[str, ...]:
        """Return the requirements of Python packages."""
        return self.packages.python


class _Version(NamedTuple):
    content: Annotated[Content, SAME_LEVEL]
    docker_image: Annotated[str, validators.docker_image] = ""
    """Of a base: the image of this version, instead of the bootstrap's."""


_VERSION = fields_of("a version", _Version)


@with_schema(lambda: schema_of(_VERSION))
def _version(node: Node, problems: Problems) -> Content | None:
    version = _VERSION(node, problems)
    return version and version.content._replace(image=version.docker_image)


Versions: TypeAlias = Mapping[Annotated[str, validators.version], Annotated[Content, _version]]


class Provider(NamedTuple):
    """Hold what one way to get a layer's software adds, or why nothing is installed."""

    content: Annotated[Content, SAME_LEVEL] = Content()
    versions: Versions = {}
    """The sources and values that each version adds in this case."""
    omit: Line = ""
    """The reason to install nothing."""


Providers: TypeAlias = Mapping[Name, Annotated[Provider, fields_of("a provider", Provider)]]


class Variant(NamedTuple):
    """Say how a layer differs for one accelerator, or why it is left out there."""

    content: Annotated[Content, SAME_LEVEL] = Content()
    versions: Versions = {}
    """The sources and values that each version adds for this accelerator."""
    providers: Providers = {}
    """Ways to get the software for this accelerator; the first is the default."""
    parameters: Annotated[Mapping[str, Node], validators.values] = {}
    """Parameters with another default for this accelerator."""
    requires: Names = ()
    """More layers that must come before this one."""
    omit: Line = ""
    """The reason to leave the layer out."""
    install: Script = ""
    """The script to run instead of `install.sh`."""
    compile: Script = ""
    """The script to run instead of `compile.sh`."""


_NAMES = readers.sequence(validators.name)


def _names(node: Node, problems: Problems) -> str | None:
    """Read the names of layers, as a list or in one text; return them with spaces between."""
    if isinstance(node, Scalar):
        words = node.text.replace(",", " ").split()
        node = Sequence(node.place, tuple(Scalar(node.place, word, plain=False) for word in words))
    before = len(problems.noted)
    names = _NAMES(node, problems)
    if not names and len(problems.noted) == before:
        problems.add("expected names of layers, got none", node.place, hint="name one layer")
    return " ".join(dict.fromkeys(names)) if names else None


LAYERS = "layers"
"""The type of parameters that name layers, which must come before the layer that has them."""
TYPES: Mapping[str, readers.Reader[Any]] = {
    "string": text,
    "integer": readers.integer,
    "boolean": readers.boolean,
    LAYERS: _names,
}

PROVIDER = "provider"
"""The parameter that chooses one of a layer's providers."""


class Parameter(NamedTuple):
    """Declare one value that a layer's ``install.sh`` receives as a shell variable."""

    name: str
    type: Annotated[str, choice(tuple(TYPES), "type")]
    """The type of its values. `layers` is a list of layers that must come before this one: the
    script gets their names with spaces between. Files below a folder that is named after one of
    the choices are there only if it is chosen, also below `checks/`."""
    default: Annotated[Value, validators.any_value]
    """Its value if no variant, profile, recipe or `--set` gives one."""
    place: Place
    summary: Summary = ""
    """Its effect, in one line."""
    choices: tuple[Annotated[str, text], ...] = ()
    """Of a string: the values that it can have. Of layers: those that it can name."""
    unsupported: Mapping[Accelerator, Line] = {}
    """Accelerators with the reason: a boolean cannot be `true` for them, and they have no parameter
    of another type."""


_PARAMETERS = mapping(fields_of("a parameter", Parameter), key=validators.variable)


@with_schema(lambda: schema_of(_PARAMETERS))
def _parameters(node: Node, problems: Problems) -> tuple[Parameter, ...] | None:
    parameters = _PARAMETERS(node, problems) or {}
    return tuple(each._replace(name=name) for name, each in parameters.items())


def parameter_value(parameter: Parameter, node: Node, problems: Problems) -> Value | None:
    """Read the value of a parameter, which its type and its choices allow."""
    value: Value | None = TYPES[parameter.type](node, problems)
    if value is None or not parameter.choices:
        return value
    words = str(value).split() if parameter.type == LAYERS else [value]
    for wrong in (each for each in words if each not in parameter.choices):
        what = f"invalid value '{wrong}' of '{parameter.name}'"
        problems.add(what, node.place, hint=f"choose one of: {', '.join(parameter.choices)}")
        return None
    return value


class Bootstrap(NamedTuple):
    """Say where a base image comes from: an agent of Apptainer's and what it needs."""

    agent: Annotated[str, choice(("debootstrap", "docker", LOCALIMAGE), "agent")]
    """The program that makes the base: `debootstrap` installs packages, `docker` pulls an image,
    `localimage` takes an image file of this host."""
    release: Name = ""
    """For debootstrap: the release, such as bookworm."""
    include: tuple[Annotated[Text, validators.apt_name], ...] = ()
    """For debootstrap: packages that it installs too, such as ca-certificates."""
    image: Annotated[str, validators.docker_image, "docker_image"] = ""
    """For docker: the base itself. For debootstrap: the same system as an image. A
    Dockerfile begins with it."""
    file: Annotated[str, validators.image_file] = ""
    """For localimage: the image file, such as
    `/appl/local/laifs/containers/lumi-multitorch-latest.sif`."""
    sha256: Annotated[str, validators.sha256] = ""
    """For localimage: the sha256 of the file. A build refuses another file."""
    packages: str = ""
    """The sha256 of the list of packages that debootstrap must have made it of; empty for any."""
    image_of: str = ""
    """The release of ``image``, if it differs from ``release``."""

    @property
    def by_debootstrap(self) -> bool:
        """Whether packages make the base; all other agents unpack an image."""
        return self.agent == "debootstrap"


class Layer(NamedTuple):
    """Describe one piece of software; everything about it lies in one folder."""

    name: str
    summary: Summary
    """A description, in one line."""
    place: Place
    version: Annotated[Text | None, line] = None
    """The version to install unless another is asked for. It reaches `install.sh` as `$version`."""
    versions: Versions = {}
    """The sources and values that each version adds. Other versions are then refused."""
    requires: Names = ()
    """Layers that must come before this one."""
    conflicts: Names = ()
    """Layers that exclude this one."""
    parameters: Annotated[tuple[Parameter, ...], _parameters] = ()
    """Values that reach `install.sh` as shell variables."""
    content: Annotated[Content, SAME_LEVEL] = Content()
    providers: Providers = {}
    """Ways to get the software, such as `source` and `host`. The parameter `provider` chooses; the
    first is the default."""
    variants: Mapping[Accelerator, Annotated[Variant, fields_of("a variant", Variant)]] = {}
    """Additions and changes for an accelerator."""
    bootstrap: Mapping[Accelerator, Annotated[Bootstrap, fields_of("a bootstrap", Bootstrap)]] = {}
    """Of a base: where it comes from, such as `{agent: debootstrap, release: bookworm,
    docker_image: "debian:bookworm"}`, `{agent: docker, docker_image: IMAGE}` or
    `{agent: localimage, file: /path/image.sif, sha256: …}`."""
    files: tuple[LayerFile, ...] = ()
    checks: Checks = Checks()
    secrets: tuple[Name, ...] = ()
    """Ids of files that the scripts get from `--secret`, as `$secrets/ID`, while they run."""
    not_reproducible: Mapping[Annotated[str, validators.pattern], Line] = {}
    """Paths, with wildcards, that are not the same in two builds, each with the reason. They are
    for `build --check`."""
    format: Format = FORMAT
    """The format of the document: 1. It changes if a key is renamed or removed."""


LAYER = fields_of("layer", Layer)
