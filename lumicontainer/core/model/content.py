"""The keys by which a layer, and its variants, providers and versions, fill an image."""

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple, TypeAlias

from lumicontainer.core.yaml import validators
from lumicontainer.core.yaml.nodes import Mapping as MappingNode
from lumicontainer.core.yaml.nodes import Node
from lumicontainer.core.yaml.pep508 import requirement
from lumicontainer.core.yaml.readers import (
    Reader,
    Text,
    described,
    line,
    schema_of,
    sequence,
    text,
    with_place,
)
from lumicontainer.core.yaml.record import Mark, record
from lumicontainer.errors import Place, Problems, did_you_mean

Line: TypeAlias = Annotated[str, line]
Name: TypeAlias = Annotated[str, validators.name]
Names: TypeAlias = tuple[Annotated[Text, validators.name], ...]
Script: TypeAlias = Annotated[str, validators.script]
Sha256: TypeAlias = Annotated[str, validators.sha256]


class SdistSource(NamedTuple):
    """Name one Python source distribution."""

    sdist: Name
    """A source distribution, in the layer's version. `requirements.txt` beside `install.sh` has
    its line for pip."""
    sha256: Sha256 = ""
    """Its sha256. `show` calls a source without it not pinned."""


class GitSource(NamedTuple):
    """Name one commit of a git repository."""

    git: Annotated[str, validators.https_url]
    """The URL of a git repository."""
    commit: Annotated[str, validators.commit]
    """The commit. `show` calls a short one not pinned."""
    folder: Annotated[str, validators.file]
    """Its folder in `$sources`."""
    submodules: bool = False
    """Whether its submodules are fetched too."""


class UrlSource(NamedTuple):
    """Name one file to download."""

    url: Annotated[str, validators.http_url]
    """The URL of a file. Over plain http, in `url` or by a mirror, it is refused without
    `sha256`."""
    file: Annotated[str, validators.file]
    """Its name in `$sources`."""
    sha256: Sha256 = ""
    """Its sha256. `show` calls a source without it not pinned."""


Source: TypeAlias = SdistSource | GitSource | UrlSource
_SOURCES: dict[str, Reader[Any]] = {
    "sdist": record("an sdist source", SdistSource),
    "git": record("a git source", GitSource),
    "url": record("a url source", UrlSource),
}
"""By the key that decides the kind of a source."""


@described(lambda: {"oneOf": [schema_of(reader) for reader in _SOURCES.values()]})
def _source(node: Node, problems: Problems) -> Source | None:
    given = [key.text for key, _ in node.entries] if isinstance(node, MappingNode) else []
    kinds = [kind for kind in _SOURCES if kind in given]
    if len(kinds) != 1:
        near = [did_you_mean(word, _SOURCES) for word in given]
        hint = next((text for text in near if text.startswith("did")), "see the layers that have")
        what = "a source has exactly one of the keys " + ", ".join(map(repr, _SOURCES))
        problems.add(what, node.place, hint=hint)
        return None
    before = len(problems.found)
    source: Source | None = _SOURCES[kinds[0]](node, problems)
    if len(problems.found) > before:
        return None
    if isinstance(source, UrlSource) and source.url.startswith("http:") and not source.sha256:
        why = "by plain http anyone on the way can change it"
        hint = "write https://, or add its sha256"
        problems.add(f"'{source.file}' comes by plain http", node.place, why=why, hint=hint)
        return None
    return source


@described(lambda: {"type": "array", "items": schema_of(_source)})
def _sources(node: Node, problems: Problems) -> tuple[Source, ...] | None:
    """Read a list of sources, of which no two have the same name."""
    found: Any = sequence(with_place(_source))(node, problems)
    first: dict[str, Place] = {}
    for source, place in found or ():
        name = identity(source)
        if first.setdefault(name, place) is not place:
            why = f"the first is at line {first[name].line}"
            hint = "give one of them another name, or remove it"
            problems.add(f"two sources are '{name}'", place, why=why, hint=hint)
    return None if found is None else tuple(source for source, _ in found)


def identity(source: Source) -> str:
    """Return the name of a source in its layer: of two with the same, the later one counts."""
    if isinstance(source, SdistSource):
        return f"Python {source.sdist}"
    return source.folder if isinstance(source, GitSource) else source.file


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


APackage: TypeAlias = Annotated[PipInstall, record("a package of pip_installs", PipInstall)]


class Bind(NamedTuple):
    """Name a host path that containers need, and why."""

    path: Annotated[str, validators.absolute]
    """The path on the host."""
    reason: Line
    """The reason."""
    source: Line = ""
    """The document that says so."""


ABind: TypeAlias = Annotated[Bind, record("a bind", Bind)]


class Content(NamedTuple):
    """Hold what a layer puts into an image, or a part of it: a variant, a provider, a version."""

    packages: Annotated[Packages, record("packages", Packages)] = Packages()
    """Packages that are installed before `install.sh`."""
    apt_repositories: Script = ""
    """A script of the layer's folder that adds apt repositories. It runs before `packages` are
    installed and before `lock` asks for them. The layer's `sources`, such as a key, are there;
    programs that it calls must come from earlier layers."""
    sources: Annotated[tuple[Source, ...], _sources] = ()
    """Sources to download. Those of `git` and `url` are in `$sources` when the script begins."""
    environment: Mapping[Annotated[str, validators.constant], Annotated[str, text]] = {}
    """Variables that the image sets. Values arrive as written, with `~` and newlines; a Dockerfile
    cannot hold a newline."""
    path: tuple[Annotated[str, validators.absolute], ...] = ()
    """Folders that are put before PATH."""
    provides: Mapping[Name, Line] = {}
    """Versions of what comes with the layer under another name, such as `{glibc: "2.36"}`, for
    rules and for `lumi-entry`. `{python: "3.12"}` says that the image has Python."""
    apt_versions: Mapping[Name, Line] = {}
    """Of a base: versions of what its repositories have, for rules and for `lock`, such as
    `{python: "3.11"}`."""
    binds: tuple[ABind, ...] = ()
    """Paths of the host that an image with this layer needs."""
    host_libraries: tuple[ABind, ...] = ()
    """Libraries of the host that an image with this layer needs. What these need in turn is found
    on the host."""
    pip_installs: tuple[APackage, ...] = ()
    """Packages that the script installs with pip itself, in the layer's version. `lock` pins them,
    and a locked build installs them first."""
    image: str = ""
    """Of a base: the image that it is, in place of the one that its bootstrap names."""
    locked: tuple[str, ...] = ()
    """Lines of pip's requirements, each with its hash, in place of the packages by name."""
    indexed: Mapping[str, tuple[str, ...]] = {}
    """Such lines by the URL of the index that is asked for them beside the configured one."""

    @property
    def apt(self) -> tuple[str, ...]:
        """Return the Debian packages."""
        return self.packages.apt

    @property
    def python(self) -> tuple[str, ...]:
        """Return the requirements of Python packages."""
        return self.packages.python


class _Version(NamedTuple):
    content: Annotated[Content, Mark.SAME_LEVEL]
    docker_image: Annotated[str, validators.docker_image] = ""
    """Of a base: the image that this version is, in place of the bootstrap's."""


_VERSION = record("a version", _Version)


@described(lambda: schema_of(_VERSION))
def _version(node: Node, problems: Problems) -> Content | None:
    found = _VERSION(node, problems)
    return found and found.content._replace(image=found.docker_image)


Versions: TypeAlias = Mapping[Annotated[str, validators.version], Annotated[Content, _version]]


class Provider(NamedTuple):
    """Hold what one way to get a layer's software adds, or why nothing is installed."""

    content: Annotated[Content, Mark.SAME_LEVEL] = Content()
    versions: Versions = {}
    """What each version adds in this case."""
    omit: Line = ""
    """The reason to install nothing."""


Providers: TypeAlias = Mapping[Name, Annotated[Provider, record("a provider", Provider)]]


class Variant(NamedTuple):
    """Say how a layer differs for one accelerator, or why it is left out there."""

    content: Annotated[Content, Mark.SAME_LEVEL] = Content()
    versions: Versions = {}
    """What each version adds for this accelerator."""
    providers: Providers = {}
    """Ways to get the software for this accelerator; the first is the default."""
    parameters: Annotated[Mapping[str, Node], validators.values] = {}
    """Parameters with another default for this accelerator."""
    requires: Names = ()
    """More layers that must come before this one."""
    omit: Line = ""
    """The reason to leave the layer out."""
    install: Script = ""
    """The script to run in place of `install.sh`."""
    compile: Script = ""
    """The script to run in place of `compile.sh`."""
