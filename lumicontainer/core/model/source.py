"""The inputs of an image, and the sources of its layers.

All that depends on the kind of a source is here: its keys, label, input, pin and packages, and
how a step fetches it. Only ``core.lock`` and ``pinning`` know the kinds too.
"""

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, NamedTuple, TypeAlias

from lumicontainer.core.model.files import LayerFile
from lumicontainer.core.model.wheel_names import wheel_facts, wheel_package
from lumicontainer.core.yaml import validators
from lumicontainer.core.yaml.nodes import Mapping, Node
from lumicontainer.core.yaml.readers import Reader, schema_of, sequence, with_place, with_schema
from lumicontainer.core.yaml.record import fields_of
from lumicontainer.core.yaml.urls import HTTP, HTTPS, find_url_fault
from lumicontainer.errors import KEEP_ONE, Place, Problems, did_you_mean

IMAGE, DEBOOTSTRAP, APT, PYTHON, SDIST, GIT, URL = KINDS = (
    *("image", "debootstrap", "apt", "python", "sdist", "git", "url"),
)
FOLDER = "sources"
"""The folder of a step's sources: a variable of the shell, and a folder in its stage."""
REQUIREMENTS = "requirements.txt"
"""The file that a step has of the sources that pip fetches."""
Sha256: TypeAlias = Annotated[str, validators.sha256]


class Input(NamedTuple):
    """Name one thing that a layer takes from elsewhere."""

    layer: str
    kind: str
    """One of ``KINDS``."""
    name: str
    where: str = ""
    """The file of requirements that names it, or its name in ``$sources``."""
    stated: str = ""
    """The pin in the recipe; for a commit as many digits as it has."""
    label: str = ""
    index_url: str = ""
    """The URL of the index of Python packages that is searched besides the configured one."""

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Return its name in a lock: its layer, kind, name and place."""
        return self.layer, self.kind, self.name, self.where

    @property
    def pinned(self) -> bool:
        """Return whether the recipe alone decides its bytes."""
        return bool(self.stated) and (
            self.kind != GIT or len(self.stated) == validators.WHOLE_COMMIT
        )

    def allows(self, pin: str) -> bool:
        """Return whether a pin agrees with the recipe."""
        if self.kind == APT:
            pin = pin.partition(" ")[0]
        return pin.startswith(self.stated) if self.kind == GIT else self.stated in ("", pin)


class SdistSource(NamedTuple):
    """Name one Python source distribution."""

    sdist: Annotated[str, validators.name]
    """A source distribution, in the layer's version. `requirements.txt` next to `install.sh` has
    its line for pip."""
    sha256: Sha256 = ""
    """Its sha256. `show` calls a source without it not pinned."""

    def input(self, layer: str = "", version: object = "") -> Input:
        """Return it as an input of a layer."""
        label = f"Python {self.sdist}{_hash(self.sha256)}"
        name = f"{self.sdist}=={version}"
        return Input(layer, SDIST, name, stated=self.sha256, label=label)

    def fetch(self) -> tuple[str, ...]:
        """Return the arguments of fetch.sh: none, because pip fetches it."""
        return ()


class GitSource(NamedTuple):
    """Name one commit of a git repository."""

    git: Annotated[str, validators.https_url]
    """The URL of a git repository."""
    commit: Annotated[str, validators.commit]
    """The commit. `show` calls a short one not pinned."""
    folder: Annotated[str, validators.file]
    """Its folder in `$sources`."""
    submodules: tuple[Annotated[str, validators.inner_path], ...] = ()
    """The folders of the submodules that are fetched too, with their own."""

    def input(self, layer: str = "", version: object = "") -> Input:
        """Return it as an input of a layer, whose version does not matter."""
        del version
        more = f" with {', '.join(self.submodules)}" if self.submodules else ""
        label = f"{self.folder} from {self.git}, commit {self.commit}{more}"
        return Input(layer, GIT, self.git, self.folder, self.commit, label)

    def fetch(self) -> tuple[str, ...]:
        """Return the arguments of fetch.sh."""
        return (GIT, self.git, self.commit, self.folder, *self.submodules)


class UrlSource(NamedTuple):
    """Name one file to download."""

    url: Annotated[str, validators.http_url]
    """The URL of a file. Over plain http, in `url` or by a mirror, it is refused without
    `sha256`."""
    file: Annotated[str, validators.file]
    """Its name in `$sources`."""
    sha256: Sha256 = ""
    """Its sha256. `show` calls a source without it not pinned."""

    def input(self, layer: str = "", version: object = "") -> Input:
        """Return it as an input of a layer, whose version does not matter."""
        del version
        label = f"{self.file} from {self.url}{_hash(self.sha256)}"
        return Input(layer, URL, self.url, self.file, self.sha256, label)

    def fetch(self) -> tuple[str, ...]:
        """Return the arguments of fetch.sh."""
        return (URL, self.url, self.file, *filter(None, [self.sha256]))


Source: TypeAlias = SdistSource | GitSource | UrlSource


def _hash(sha256: str) -> str:
    return f", sha256 {sha256}" if sha256 else ""


def source_name(source: Source) -> str:
    """Return the name of a source in its layer: of two with the same, the later one counts."""
    entry = source.input()
    return entry.where or f"Python {entry.name.removesuffix('==')}"


def fetched(sources: Iterable[Source], files: Iterable[LayerFile]) -> tuple[Source, ...]:
    """Return the sources that a step with these files fetches: none if no file uses them.

    A layer that compiles has two steps, and only one of them uses sources, which are large.
    """
    chosen = tuple(each for each in sources if each.fetch())
    uses = (f"${FOLDER}".encode(), f"${{{FOLDER}".encode())
    used = chosen and any(word in file.content for file in files for word in uses)
    return chosen if used else ()


def sdists(sources: Iterable[Source]) -> list[SdistSource]:
    """Return the sources that pip fetches."""
    return [each for each in sources if isinstance(each, SdistSource)]


def requirement(source: SdistSource, version: object) -> str:
    """Return a source as a line of pip's requirements, with its hash if it is known."""
    more = f" --hash=sha256:{source.sha256}" if source.sha256 else ""
    return f"{source.sdist}=={version}{more}\n"


def with_pin(source: Source, pin: str) -> Source:
    """Return a source with a pin."""
    if isinstance(source, GitSource):
        return source._replace(commit=pin)
    return source._replace(sha256=pin)


def python_packages(sources: Iterable[Source], version: object) -> Iterator[tuple[str, str]]:
    """Yield the Python packages that sources are, each with its version."""
    for source in sources:
        if isinstance(source, SdistSource):
            yield source.sdist, str(version)
        elif isinstance(source, UrlSource):
            yield from wheel_package(source.file)


def source_facts(source: Source) -> Iterator[tuple[str, str]]:
    """Yield what a source says about an image: its ``commit``, or what its wheel is for."""
    if isinstance(source, GitSource):
        yield "commit", source.commit
    elif isinstance(source, UrlSource):
        yield from wheel_facts(source.file)


_SOURCES: dict[str, Reader[Any]] = {
    SDIST: fields_of("an sdist source", SdistSource),
    GIT: fields_of("a git source", GitSource),
    URL: fields_of("a url source", UrlSource),
}
"""By the key that decides the kind of a source."""


@with_schema(lambda: {"oneOf": [schema_of(reader) for reader in _SOURCES.values()]})
def _source(node: Node, problems: Problems) -> Source | None:
    keys = [key.text for key, _ in node.entries] if isinstance(node, Mapping) else []
    kinds = [kind for kind in _SOURCES if kind in keys]
    if len(kinds) != 1:
        near = [did_you_mean(word, _SOURCES) for word in keys]
        *others, last = (f"'{kind}:'" for kind in _SOURCES)
        add = KEEP_ONE if kinds else f"add {', '.join(others)} or {last}"
        hint = next((text for text in near if text.startswith("did")), add)
        what = "a source has exactly one of the keys " + ", ".join(map(repr, _SOURCES))
        problems.add(what, node.place, hint=hint)
        return None
    before = len(problems.noted)
    source: Source | None = _SOURCES[kinds[0]](node, problems)
    if len(problems.noted) > before:
        return None
    if isinstance(source, UrlSource):
        pinned = bool(source.sha256)
        wrong = find_url_fault(source.url, schemes=(HTTPS, HTTP), pinned=pinned)
        if wrong:
            what = f"'{source.file}' comes by plain http"
            problems.add(what, node.place, why=wrong.why, hint=wrong.hint)
            return None
    return source


@with_schema(lambda: {"type": "array", "items": schema_of(_source)})
def read_sources(node: Node, problems: Problems) -> tuple[Source, ...] | None:
    """Read a list of sources, of which no two have the same name."""
    sources: Any = sequence(with_place(_source))(node, problems)
    first: dict[str, Place] = {}
    for source, place in sources or ():
        name, hint = source_name(source), "give one of them another name, or remove it"
        problems.twice(f"two sources are '{name}'", name, place, first, hint)
    return None if sources is None else tuple(source for source, _ in sources)
