"""The lock of an image: its pins, its file, its faults, and the recipe with its pins.

A lock decides bytes. Its pins replace their inputs before steps are planned: a locked build has
other keys if the inputs differ. The same lock is the same text, and reads as the same lock.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import Annotated, Any, NamedTuple, TypeVar, cast

import yaml

from lumicontainer.constants import FORMAT
from lumicontainer.core.model import Bootstrap, BuiltSource, LayerFile, Packages
from lumicontainer.core.model.source import KINDS, with_pin
from lumicontainer.core.resolve.decisions import Resolved, ResolvedLayer
from lumicontainer.core.resolve.inputs import inputs, layer_inputs
from lumicontainer.core.yaml import readers, validators
from lumicontainer.core.yaml.nodes import Node
from lumicontainer.core.yaml.parse import read_document
from lumicontainer.core.yaml.record import SAME_LEVEL, fields_of
from lumicontainer.core.yaml.urls import find_url_fault, without_secrets
from lumicontainer.core.yaml.validators import Line, Name
from lumicontainer.errors import Problems

T = TypeVar("T")
IMAGE, DEBOOTSTRAP, APT, PYTHON, SDIST, GIT, URL = KINDS


_HASH = "--hash=sha256:[0-9a-f]{64}"
_PINS: dict[str, readers.Reader[readers.Text]] = {
    IMAGE: readers.matching(r"[A-Za-z0-9][A-Za-z0-9._/:-]*@sha256:[0-9a-f]{64}", "image@sha256:…"),
    DEBOOTSTRAP: validators.sha256,
    APT: readers.matching(rf"{validators.APT_PIN}(?: {_HASH})?", "name=version --hash=sha256:…"),
    PYTHON: readers.matching(
        rf"[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9][A-Za-z0-9.!+_-]* {_HASH}",
        "name==version --hash=sha256:…",
    ),
    SDIST: validators.sha256,
    GIT: readers.matching(r"[0-9a-f]{40}", "40 hexadecimal digits"),
    URL: validators.sha256,
}
"""The form of each kind of pin: it reaches the shell and pip's requirements as it is."""


_INDEX = readers.checked(
    readers.matching(
        r"https://[A-Za-z0-9][A-Za-z0-9._~/%+:-]*", "a URL by https", shown=without_secrets
    ),
    find_url_fault,
)


class LockEntry(NamedTuple):
    """Hold one pin of a layer, or the reason why it is missing."""

    kind: str
    name: str
    where: Annotated[str, readers.line, "file"] = ""
    """The file of requirements that names it, or its name in `$sources`."""
    pin: Annotated[str, validators.raw] = ""
    """An image with its digest; `name=version` of apt, or a line of pip's requirements, with the
    hash of the file; a commit of 40 digits, or a sha256."""
    origin: Line = ""
    """The place where the pin was found."""
    index_url: Annotated[str, _INDEX, "index"] = ""
    """The URL of its index of Python packages, unless it is the configured one."""
    dependency: bool = False
    """Whether another package needs it, and the recipe does not name it."""
    builds: Line = ""
    """The package whose source is built with it. The image does not get it."""
    open: Annotated[str, readers.line, "unpinned"] = ""
    """The reason why there is no pin."""


class _Row(NamedTuple):
    image: Line = ""
    """The base image, as the layer names it."""
    debootstrap: Line = ""
    """The release of a base that debootstrap makes."""
    apt: Line = ""
    """A Debian package."""
    python: Line = ""
    """A Python package."""
    sdist: Line = ""
    """A source distribution, with its version."""
    git: Line = ""
    """The URL of a git repository."""
    url: Line = ""
    """The URL of a file."""
    entry: Annotated[LockEntry, SAME_LEVEL] = LockEntry("", "")


_ROW = fields_of("an entry of a lock", _Row)


@readers.with_schema(
    lambda: {
        **readers.schema_of(_ROW),
        "allOf": [
            {"oneOf": [{"required": [kind]} for kind in KINDS]},
            {"oneOf": [{"required": [key]} for key in ("pin", "unpinned")]},
        ],
    }
)
def _entry(node: Node, problems: Problems) -> LockEntry | None:
    row = _ROW(node, problems)
    if row is None:
        return None
    kinds, entry = [kind for kind in KINDS if getattr(row, kind)], row.entry
    if len(kinds) != 1 or bool(entry.pin) == bool(entry.open):
        expected = f"one of the keys {', '.join(KINDS)}, and either 'pin' or 'unpinned'"
        problems.add(f"an entry of a lock has {expected}", node.place, hint="lock the recipe again")
        return None
    kind, unread = kinds[0], cast(Node, entry.pin)
    pin = _PINS[kind](unread, problems) if unread else ""
    return entry._replace(kind=kind, name=getattr(row, kind), pin=pin or "")


class Lock(NamedTuple):
    """Hold the pins of all inputs of an image, by layer."""

    recipe: Annotated[str, validators.stem]
    """The recipe."""
    platform: Annotated[str, validators.stem]
    """The platform."""
    layers: Mapping[Name, tuple[Annotated[LockEntry, _entry], ...]]
    """The pins of each layer."""
    profile: Annotated[str, validators.stem] = ""
    """The profile."""
    format: validators.Format = FORMAT
    """The format of the document: 1. It changes if a key is renamed or removed."""

    def of(self, layer: str) -> tuple[LockEntry, ...]:
        """Return the entries of a layer."""
        return self.layers.get(layer, ())

    def named(self) -> dict[tuple[str, str, str, str], LockEntry]:
        """Return the entries of inputs, by the keys of these; dependencies are not among them."""
        return {
            (layer, each.kind, each.name, each.where): each
            for layer, entries in self.layers.items()
            for each in entries
            if not each.dependency
        }

    def pins(self) -> int:
        """Return how many pins it has."""
        return sum(1 for entries in self.layers.values() for each in entries if each.pin)

    def still_open(self) -> Iterator[tuple[str, LockEntry]]:
        """Yield the entries without a pin, each with its layer."""
        for layer, entries in self.layers.items():
            yield from ((layer, each) for each in entries if each.open)


LOCK = fields_of("a lock", Lock)


def in_order(entries: Iterable[LockEntry]) -> tuple[LockEntry, ...]:
    """Return the entries of a layer in the order of the file, each once."""
    return tuple(
        sorted(
            dict.fromkeys(entries),
            key=lambda e: (KINDS.index(e.kind), e.where, e.dependency, e.name, *e),
        )
    )


def file_name(resolved: Resolved) -> str:
    """Return the name of the file, in ``locks``, that holds the lock of an image."""
    profile = f".{resolved.profile.name}" if resolved.profile else ""
    return f"{resolved.recipe.name}.{resolved.platform.name}{profile}.lock.yaml"


def lock_with(resolved: Resolved, layers: Mapping[str, Iterable[LockEntry]]) -> Lock:
    """Return the lock of an image that has these entries."""
    profile = resolved.profile.name if resolved.profile else ""
    ordered = {name: in_order(entries) for name, entries in layers.items() if entries}
    return Lock(resolved.recipe.name, resolved.platform.name, ordered, profile)


def faults(lock: Lock, resolved: Resolved) -> list[str]:
    """Return the inputs of an image that a lock does not pin, and the pins left over, in words."""
    meant = (lock.recipe, lock.platform, lock.profile)
    complete = lock_with(resolved, {})
    texts = []
    if meant != (complete.recipe, complete.platform, complete.profile):
        texts.append(f"it is the lock of {' '.join(filter(None, meant))}")
    return [*texts, *_of_inputs(lock, resolved), *_left_over(lock, resolved)]


def _of_inputs(lock: Lock, resolved: Resolved) -> Iterator[str]:
    named = lock.named()
    for each in inputs(resolved):
        entry = named.get(each.key)
        shown = f"{each.layer}: {each.label}"
        if entry is None:
            yield f"{shown}: it has no entry"
        elif entry.open:
            yield f"{shown}: open, {entry.open}"
        elif not each.allows(entry.pin):
            yield f"{shown}: the entry is another, {entry.pin}"
        elif each.index_url and entry.index_url != each.index_url:
            where = entry.index_url or "the configured one"
            yield f"{shown}: the entry is of another index, {where}"
    for layer, entry in lock.still_open():
        if entry.dependency:
            yield f"{layer}: {entry.name}: open, {entry.open}"


def _left_over(lock: Lock, resolved: Resolved) -> Iterator[str]:
    keys = {each.key for each in inputs(resolved)}
    for key, entry in lock.named().items():
        if key not in keys:
            yield f"{key[0]}: {entry.kind} {entry.name}: the image has no such input any more"


def apply_lock(resolved: Resolved, lock: Lock) -> Resolved:
    """Return an image with the pins of its lock in place of its inputs; the lock has no faults."""
    pins = {key: entry.pin for key, entry in lock.named().items()}
    layers = tuple(
        each if each.omitted else _pinned_layer(resolved, each, lock, pins)
        for each in resolved.layers
    )
    base = resolved.layers[0].name
    return resolved._replace(bootstrap=_pinned_base(resolved.bootstrap, base, pins), layers=layers)


_Pins = Mapping[tuple[str, str, str, str], str]


def _pinned_base(bootstrap: Bootstrap, layer: str, pins: _Pins) -> Bootstrap:
    if bootstrap.by_debootstrap:
        return bootstrap._replace(packages=pins[layer, DEBOOTSTRAP, bootstrap.release, ""])
    return bootstrap._replace(image=pins[layer, IMAGE, bootstrap.image, ""])


def _pinned_layer(
    resolved: Resolved, layer: ResolvedLayer, lock: Lock, pins: _Pins
) -> ResolvedLayer:
    entries = lock.of(layer.name)
    version = str(layer.values().get("version", ""))
    sources = (with_pin(s, pins[s.input(layer.name, version).key]) for s in layer.content.sources)
    built = {each.builds for each in entries if each.builds}
    plain = [each for each in entries if not (each.builds or _package(each) in built)]
    apt = _apt_pins(entries)
    content = layer.content._replace(
        # A pin that an archive no longer has is not a fault of a document: it has no place.
        packages=Packages(tuple(apt)),
        apt_hashes=tuple(f"{pin} {sha256}" for pin, sha256 in apt.items() if sha256),
        pip_installs=(),
        locked=requirements(each for each in plain if not (each.where or each.index_url)),
        indexed={
            url: requirements(each for each in plain if each.index_url == url)
            for url in sorted({each.index_url for each in plain} - {""})
        },
        built=tuple(_built_sources(entries)),
        sources=tuple(sources),
    )
    files = {
        each.where: requirements(e for e in entries if e.where == each.where)
        for each in layer_inputs(resolved, layer)
        if each.kind == PYTHON and each.where
    }
    return layer._replace(
        content=content, folder="", files=tuple(_pinned_file(each, files) for each in layer.files)
    )


def _built_sources(entries: Sequence[LockEntry]) -> Iterator[BuiltSource]:
    """Yield the sources that are built with packages of a lock."""
    for name in sorted({each.builds for each in entries if each.builds}):
        source = [each for each in entries if _package(each) == name and not each.builds]
        needs = [each for each in entries if each.builds == name]
        if source:
            yield BuiltSource(_lines_with_indexes(source), _lines_with_indexes(needs))


def _lines_with_indexes(entries: Sequence[LockEntry]) -> tuple[str, ...]:
    indexes = sorted({each.index_url for each in entries if each.index_url})
    return (*(f"--extra-index-url {url}" for url in indexes), *requirements(entries))


def _apt_pins(entries: Iterable[LockEntry]) -> dict[str, str]:
    """Return the Debian packages of a layer as `name=version`, with the sha256 of their files."""
    parts = (each.pin.partition(" --hash=sha256:") for each in entries if each.kind == APT)
    return {pin: sha256 for pin, _, sha256 in parts}


def _package(entry: LockEntry) -> str:
    """Return the package that an entry pins, as its line of requirements names it."""
    return entry.pin.partition("==")[0] if entry.kind == PYTHON else ""


def _pinned_file(file: LayerFile, files: Mapping[str, tuple[str, ...]]) -> LayerFile:
    lines = files.get(file.name)
    return file._replace(content="".join(f"{each}\n" for each in lines).encode()) if lines else file


def requirements(entries: Iterable[LockEntry]) -> tuple[str, ...]:
    """Return the lines of pip's requirements that Python entries make."""
    return _once(sorted(each.pin for each in entries if each.kind == PYTHON))


def _once(values: Iterable[T]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(values))


_HEAD = """\
# yaml-language-server: $schema=../schemas/lock.json
# `lumicontainer lock` writes this file; `lumicontainer build --locked` installs these pins only.
# `origin` is where a pin was found. A `dependency` is needed by others, not named by the recipe.
"""


def read_lock(text: str, file: str, problems: Problems) -> Lock | None:
    """Read a lock; add what is wrong with it to the problems."""
    document = read_document(LOCK, text, file, problems)
    if document is None:
        return None
    return document._replace(
        layers={name: in_order(rows) for name, rows in document.layers.items()}
    )


def text_of(lock: Lock) -> str:
    """Return a lock as YAML."""
    data: dict[str, Any] = {"format": lock.format, "recipe": lock.recipe, "platform": lock.platform}
    if lock.profile:
        data["profile"] = lock.profile
    data["layers"] = {
        layer: [_row(entry) for entry in in_order(entries)]
        for layer, entries in lock.layers.items()
    }
    return _HEAD + yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=inf)


def _row(entry: LockEntry) -> dict[str, str | bool]:
    row: dict[str, str | bool] = {
        entry.kind: entry.name,
        "file": entry.where,
        "dependency": entry.dependency,
        "pin": entry.pin,
        "origin": entry.origin,
        "index": entry.index_url,
        "builds": entry.builds,
        "unpinned": entry.open,
    }
    return {key: value for key, value in row.items() if value}


class _Dumper(yaml.SafeDumper):
    """Write the items of a list further right than its key, as people do in recipes."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        del indentless
        super().increase_indent(flow, indentless=False)

    def represent_str(self, data: str) -> yaml.ScalarNode:
        """Quote words that other readers of YAML than PyYAML take for numbers and the like."""
        style = '"' if readers.needs_quotes(data) else None
        return self.represent_scalar("tag:yaml.org,2002:str", data, style)


_Dumper.add_representer(str, _Dumper.represent_str)
_Dumper.add_representer(readers.Text, _Dumper.represent_str)
