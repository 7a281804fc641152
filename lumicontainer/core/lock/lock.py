"""The lock of an image: its pins, whether it fits a recipe, and the recipe with its pins.

A lock decides bytes. Its pins replace their inputs before steps are planned: a locked build has
keys of its own where the inputs differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass, field
from typing import TypeVar

from lumicontainer.core.model import (
    Bootstrap,
    GitSource,
    LayerFile,
    Packages,
    SdistSource,
    Source,
    UrlSource,
)
from lumicontainer.core.resolve.inputs import (
    APT,
    DEBOOTSTRAP,
    GIT,
    IMAGE,
    KINDS,
    PYTHON,
    SDIST,
    URL,
    Input,
    inputs,
    layer_inputs,
)
from lumicontainer.core.resolve.resolve import Resolved, ResolvedLayer

T = TypeVar("T")


@dataclass(frozen=True)
class LockEntry:
    """Hold one pin of a layer, or why there is none."""

    kind: str
    """One of ``KINDS``."""
    name: str
    where: str = ""
    """The file of requirements that names it, or what it is called in ``$sources``."""
    pin: str = ""
    """An image with its digest, ``name=version`` for apt, a line of pip's requirements with its
    hash, the 40 digits of a commit; of all else a sha256."""
    origin: str = ""
    """The origin of the pin."""
    index: str = ""
    """The URL of its index of Python packages, where it is not the configured one."""
    dependency: bool = False
    """The recipe does not name it: another package needs it."""
    open: str = ""
    """The reason why there is no pin; empty where there is one."""


@dataclass(frozen=True)
class Lock:
    """Hold the pins of all inputs of an image, by layer."""

    recipe: str
    platform: str
    profile: str = ""
    layers: Mapping[str, tuple[LockEntry, ...]] = field(default_factory=dict)

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

    def count(self) -> int:
        """Return how many pins it has."""
        return sum(1 for entries in self.layers.values() for each in entries if each.pin)

    def still_open(self) -> Iterator[tuple[str, LockEntry]]:
        """Yield the entries without a pin, each with its layer."""
        for layer, entries in self.layers.items():
            yield from ((layer, each) for each in entries if each.open)


def in_order(entries: Iterable[LockEntry]) -> tuple[LockEntry, ...]:
    """Return the entries of a layer in the order of the file, each once."""
    return tuple(
        sorted(
            dict.fromkeys(entries),
            key=lambda e: (KINDS.index(e.kind), e.where, e.dependency, e.name, *astuple(e)),
        )
    )


def file_name(resolved: Resolved) -> str:
    """Return the name of the file, in ``locks``, that holds the lock of an image."""
    profile = f".{resolved.profile.name}" if resolved.profile else ""
    return f"{resolved.recipe.name}.{resolved.platform.name}{profile}.lock.yaml"


def lock_of(resolved: Resolved, layers: Mapping[str, Iterable[LockEntry]]) -> Lock:
    """Return the lock of an image that has these entries."""
    profile = resolved.profile.name if resolved.profile else ""
    ordered = {name: in_order(entries) for name, entries in layers.items() if entries}
    return Lock(resolved.recipe.name, resolved.platform.name, profile, ordered)


def faults(lock: Lock, resolved: Resolved) -> list[str]:
    """Return the inputs of an image that a lock does not pin, and the pins left over, in words."""
    meant = (lock.recipe, lock.platform, lock.profile)
    wanted = lock_of(resolved, {})
    found = []
    if meant != (wanted.recipe, wanted.platform, wanted.profile):
        found.append(f"it is the lock of {' '.join(filter(None, meant))}")
    return [*found, *_of_inputs(lock, resolved), *_left_over(lock, resolved)]


def _of_inputs(lock: Lock, resolved: Resolved) -> Iterator[str]:
    named = lock.named()
    for each in inputs(resolved):
        entry = named.get(each.key)
        shown = f"{each.layer}: {each.label}"
        if entry is None:
            yield f"{shown}: it has no entry"
        elif entry.open:
            yield f"{shown}: open, {entry.open}"
        elif each.given and not _matches(each, entry.pin):
            yield f"{shown}: the entry is another, {entry.pin}"
        elif each.index_url and entry.index != each.index_url:
            yield f"{shown}: the entry is of another index, {entry.index or 'the configured one'}"
    for layer, entry in lock.still_open():
        if entry.dependency:
            yield f"{layer}: {entry.name}: open, {entry.open}"


def _left_over(lock: Lock, resolved: Resolved) -> Iterator[str]:
    wanted = {each.key for each in inputs(resolved)}
    for key, entry in lock.named().items():
        if key not in wanted:
            yield f"{key[0]}: {entry.kind} {entry.name}: the image has no such input any more"


def _matches(wanted: Input, pin: str) -> bool:
    return pin.startswith(wanted.given) if wanted.kind == GIT else pin == wanted.given


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
    if bootstrap.agent == DEBOOTSTRAP:
        return bootstrap._replace(packages=pins[layer, DEBOOTSTRAP, bootstrap.release, ""])
    return bootstrap._replace(image=pins[layer, IMAGE, bootstrap.image, ""])


def _pinned_layer(
    resolved: Resolved, layer: ResolvedLayer, lock: Lock, pins: _Pins
) -> ResolvedLayer:
    entries = lock.of(layer.name)
    version = str(layer.values().get("version", ""))
    sources = (_pinned_source(each, layer.name, version, pins) for each in layer.content.sources)
    content = layer.content._replace(
        # A pin that an archive no longer has is not a fault of a document: it has no place.
        packages=Packages(_once(str(each.pin) for each in entries if each.kind == APT)),
        pip_installs=(),
        locked=requirements(each for each in entries if not (each.where or each.index)),
        indexed={
            url: requirements(each for each in entries if each.index == url)
            for url in sorted({each.index for each in entries} - {""})
        },
        sources=tuple(sources),
    )
    files = {
        each.where: requirements(e for e in entries if e.where == each.where)
        for each in layer_inputs(resolved, layer)
        if each.kind == PYTHON and each.where
    }
    return layer._replace(
        content=content,
        folder="",
        files=tuple(_pinned_file(each, files) for each in layer.files),
    )


def _pinned_file(file: LayerFile, files: Mapping[str, tuple[str, ...]]) -> LayerFile:
    lines = files.get(file.name)
    return file._replace(content="".join(f"{each}\n" for each in lines).encode()) if lines else file


def requirements(entries: Iterable[LockEntry]) -> tuple[str, ...]:
    """Return the lines of pip's requirements that Python entries make."""
    return _once(sorted(each.pin for each in entries if each.kind == PYTHON))


def _pinned_source(source: Source, layer: str, version: str, pins: _Pins) -> Source:
    if isinstance(source, SdistSource):
        return source._replace(sha256=pins[layer, SDIST, f"{source.sdist}=={version}", ""])
    if isinstance(source, GitSource):
        return source._replace(commit=pins[layer, GIT, source.git, source.folder])
    assert isinstance(source, UrlSource)
    return source._replace(sha256=pins[layer, URL, source.url, source.file])


def _once(values: Iterable[T]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(values))
