"""The values of a recipe with their origins, and other documents, as plain data."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from lumicontainer.api.recipes import RecipeRequest
from lumicontainer.core.catalog import Catalog, open_catalog
from lumicontainer.core.lock import Lock, faults
from lumicontainer.core.model import LayerFile, Profile
from lumicontainer.core.plan.plan import planned
from lumicontainer.core.plan.records import resolved_record
from lumicontainer.core.resolve.decisions import Resolved, ResolvedLayer
from lumicontainer.core.resolve.inputs import layer_inputs, unpinned
from lumicontainer.core.shell import shell_value
from lumicontainer.core.yaml import nodes
from lumicontainer.errors import InputError, Place, Problem, Problems, did_you_mean
from lumicontainer.host.machine import platform_here
from lumicontainer.host.recipes import find_lock, locate_recipe, nearby
from lumicontainer.system.terminal.text import Folded, TextPart, TextTable
from lumicontainer.system.units import count

_ALWAYS = ("default", "requires", "parameters")
"""The fields that are printed even if they are empty."""
_FORMS: Mapping[type, Callable[[Any], Any]] = {
    Place: str,
    nodes.Scalar: lambda scalar: scalar.text,
    nodes.Sequence: lambda sequence: [plain(each) for each in sequence.items],
    LayerFile: lambda file: file.name,
}
ORIGINS = {
    "layer": "the layer's default",
    "variant": "the layer's variant for this accelerator",
    "profile": "the profile",
    "recipe": "the recipe",
    "option": "the command line",
}
"""By the origin of a value: its words for people."""
_LIST_WIDTH = 98
"""Columns of a list of inputs in a file."""


@dataclass(frozen=True)
class ShowRequest(RecipeRequest):
    """Name a recipe, a platform, a profile or a layer."""

    kind: str = ""
    """One of ``KINDS``; by default the first that has the name."""

    def name(self) -> str:
        """Return the name, also of a recipe that is named by its file."""
        if isinstance(self.recipe, Resolved):
            return self.recipe.recipe.name
        return locate_recipe(str(self.recipe), self.recipes)[0]


@dataclass(frozen=True)
class ShownRecipe:
    """Hold the values of a recipe with their origins, and its lock."""

    resolved: Resolved
    locked: tuple[str, Lock] | None
    """The path of the lock, and what it pins."""
    other_kinds: Sequence[str] = ()
    """The other kinds of document that have the name."""

    def as_data(self) -> dict[str, Any]:
        """Return the recipe as ``lumicontainer show --json`` prints it."""
        return _resolved_data(self.resolved, self.locked)

    def as_text(self) -> Iterator[TextPart]:
        """Yield the recipe as ``lumicontainer show`` prints it."""
        yield from itertools.starmap(_indented, _head(self.resolved))
        if self.locked:
            yield from itertools.starmap(_indented, _lock_lines(self.resolved, *self.locked))
        lock = self.locked[1] if self.locked else None
        for layer in self.resolved.layers:
            yield ""
            yield Folded("", f"{layer.name}: {layer.summary}")
            if layer.omitted:
                yield Folded("  left out: ", layer.omitted)
                continue
            values = ((each, f"{ORIGINS[each.origin]}, {each.place}") for each in layer.settings)
            yield TextTable(
                [(each.name, shell_value(each.value), origin) for each, origin in values]
            )
            yield from _layer_lines(self.resolved, layer, lock)


@dataclass(frozen=True)
class ShownDocument:
    """Hold a platform, a profile or a layer as plain data."""

    name: str
    kind: str
    data: Mapping[str, Any]
    other_kinds: Sequence[str] = ()

    def as_data(self) -> Mapping[str, Any]:
        """Return the document as ``lumicontainer show --json`` prints it."""
        return self.data

    def as_text(self) -> Iterator[TextPart]:
        """Yield the document as YAML."""
        yield f"# {self.kind} {self.name}"
        text = yaml.safe_dump(self.data, sort_keys=False, allow_unicode=True, width=100)
        yield from text.rstrip("\n").split("\n")


@dataclass(frozen=True)
class Listing:
    """Hold the summaries of all documents, and the problems of those that cannot be read."""

    documents: Mapping[str, Mapping[str, str]]
    """By kind, then by name."""
    platform_here: str
    """The platform of this host."""
    problems: Sequence[Problem]

    def as_data(self) -> dict[str, Any]:
        """Return it as ``lumicontainer list --json`` prints it."""
        documents = {f"{kind}s": rows for kind, rows in self.documents.items()}
        return {**documents, "platform_here": self.platform_here}

    def as_text(self) -> Iterator[TextPart]:
        """Yield it as ``lumicontainer list`` prints it."""
        for kind, entries in self.documents.items():
            yield f"{kind}s"
            marks = {self.platform_here: " (this host)"} if kind == "platform" else {}
            yield TextTable(
                [(name, f"{text}{marks.get(name, '')}") for name, text in entries.items()]
            )


def list_documents(recipes: Path | None = None) -> Listing:
    """Return all recipes, profiles, layers and platforms, with those of a folder of your own."""
    problems = Problems()
    catalog = open_catalog(recipes, problems)
    broken = dict.fromkeys(problems.noted)
    readers: dict[str, Callable[[str], Any]] = {
        "recipe": catalog.recipe,
        "profile": catalog.profile,
        "layer": catalog.layer,
        "platform": catalog.platform,
    }
    documents = {
        kind: {name: _summary(read, name, broken) for name in catalog.names(kind)}
        for kind, read in readers.items()
    }
    # Platforms that cannot be read are among the broken already.
    here = platform_here(catalog.detected(Problems()))
    return Listing(documents, here, list(broken))


def _summary(read: Callable[[str], Any], name: str, broken: dict[Problem, None]) -> str:
    try:
        return str(read(name).summary)
    except InputError as error:
        broken |= dict.fromkeys(error.problems)
        return "(cannot be read)"


def show(request: ShowRequest) -> ShownRecipe | ShownDocument:
    """Return the recipe or the document of a name; raise ``InputError`` if there is none."""
    catalog, name = request.open_catalog(), request.name()
    kind, *others = _kinds(catalog, request, name)
    if kind != RECIPE:
        _refuse_recipe_options(request, kind)
        return ShownDocument(name, kind, DOCUMENTS[kind](catalog, name), others)
    resolved = request.resolve()
    return ShownRecipe(resolved, find_lock(resolved, catalog), others)


def _kinds(catalog: Catalog, request: ShowRequest, name: str) -> list[str]:
    """Return the kinds of document that have a name, the first that is searched first."""
    if name != request.recipe:
        return [RECIPE]
    names = {kind: catalog.names(kind) for kind in KINDS}
    searched = [request.kind] if request.kind else KINDS
    kinds = [kind for kind in searched if name in names[kind]]
    if kinds:
        return kinds
    file = nearby(name)
    known = {each for kind in searched for each in names[kind]}
    why, hint = catalog.other_kind(searched[0], name) if request.kind else ("", "")
    hint = f"name its file: {file}" if file else hint or did_you_mean(name, known)
    *others, last = searched
    what = f"{', '.join(others)} or {last}" if others else last
    raise InputError(Problem(f"{what} '{name}' not found", why=why, hint=hint))


def _refuse_recipe_options(request: ShowRequest, kind: str) -> None:
    options: Mapping[str, object] = {
        "--platform": request.platform,
        "--profile": request.profile,
        "--set": request.values,
    }
    hint = f"leave it out: '{request.recipe}' is a {kind}"
    wrong = [option for option, value in options.items() if value]
    if wrong:
        raise InputError(
            *(Problem(f"{each} is an option of a recipe", hint=hint) for each in wrong)
        )


def _layer_data(catalog: Catalog, name: str) -> dict[str, Any]:
    layer = catalog.layer(name)
    return {**plain(layer), "checks": [plain(each) for each in layer.checks.each]}


def _profile_data(profile: Profile) -> dict[str, Any]:
    base = {"base": plain(profile.base.layer) if profile.base else None}
    values = {str(use.layer): plain(use.values) for use in profile.values}
    return {**plain(profile), **base, "values": values}


def plain(value: Any) -> Any:
    """Return a value of the model as plain data, without empty fields."""
    for kind, form in _FORMS.items():
        if isinstance(value, kind):
            return form(value)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if hasattr(value, "_asdict"):
        fields = {name: plain(each) for name, each in value._asdict().items()}
        empty: tuple[Any, ...] = ("", [], {}, None)
        return {name: each for name, each in fields.items() if each not in empty or name in _ALWAYS}
    if isinstance(value, tuple):
        return [plain(each) for each in value]
    return value


DOCUMENTS: Mapping[str, Callable[[Catalog, str], dict[str, Any]]] = {
    "platform": lambda catalog, name: plain(catalog.platform(name)),
    "profile": lambda catalog, name: _profile_data(catalog.profile(name)),
    "layer": _layer_data,
}
"""By kind: the function that returns a document as plain data."""
RECIPE = "recipe"
KINDS = (RECIPE, *DOCUMENTS)
"""The kinds in which a name is searched, in this order."""


def pins_of(resolved: Resolved, layer: ResolvedLayer, lock: Lock) -> dict[str, str]:
    """Return the pins that a lock has for the open inputs of a layer, by their labels."""
    inputs, named = layer_inputs(resolved, layer), lock.named()
    entries = [(each.label, named.get(each.key)) for each in inputs if not each.pinned]
    return {label: entry.pin for label, entry in entries if entry and entry.pin}


def _resolved_data(resolved: Resolved, locked: tuple[str, Lock] | None) -> dict[str, Any]:
    path, lock = locked or ("", None)
    about = {"file": path, "pins": lock.pins(), "faults": faults(lock, resolved)} if lock else None
    always: dict[str, Any] = {"profile": None, "binds": [], "host_libraries": [], "lock": about}
    data = {**always, **resolved_record(resolved), "platform": plain(resolved.platform)}
    for layer in resolved.included():
        entry = data["layers"][layer.name]
        entry["places"] = {setting.name: setting.place for setting in layer.settings}
        entry["sources"] = [source.input().label for source in layer.content.sources]
        entry["not_pinned"] = list(unpinned(resolved, layer))
        entry["locked"] = pins_of(resolved, layer, lock) if lock else {}
    data["steps"] = [{"name": step.name, "key": step.key} for step in planned(resolved).steps]
    return data


def _indented(depth: int, text: str) -> Folded:
    """Return a line that a terminal folds one step deeper than it begins."""
    indent = "  " * depth
    return Folded(indent, text, f"{indent}  ")


def _head(resolved: Resolved) -> Iterator[tuple[int, str]]:
    """Yield lines about the whole image, each with its depth."""
    platform = resolved.platform
    yield 0, f"{resolved.recipe.name}: {resolved.recipe.summary}"
    yield 0, f"platform {platform.name}: {platform.summary} (accelerator {platform.accelerator})"
    if resolved.profile:
        yield 0, f"profile {resolved.profile.name}: {resolved.profile.summary}"
    for label, binds in (
        ("bind", resolved.binds()),
        ("library of the host", resolved.host_libraries()),
    ):
        for each in binds:
            source = f" [{each.source}]" if each.source else ""
            yield 1, f"{label} {each.path}"
            yield 2, f"{each.reason}{source}"


def _lock_lines(resolved: Resolved, path: str, lock: Lock) -> Iterator[tuple[int, str]]:
    """Yield lines about the lock, each with its depth."""
    wrong = faults(lock, resolved)
    state = "it does not pin all of this image:" if wrong else "build --locked uses these only"
    yield 0, f"lock {path}: {count(lock.pins(), 'pin')}; {state}"
    yield from ((1, str(each)) for each in wrong)


def _layer_lines(resolved: Resolved, layer: ResolvedLayer, lock: Lock | None) -> Iterator[TextPart]:
    content = layer.content
    sources = [source.input() for source in content.sources]
    for text in (
        *(f"environment {name}={value}" for name, value in content.environment.items()),
        *(f"path {folder}" for folder in content.path),
        *(f"prepend {name}={':'.join(each)}" for name, each in content.prepend.items()),
        *(f"source {each.label}" for each in sources if each.pinned),
    ):
        yield _indented(1, text)
    lists: dict[str, Sequence[str]] = {"not pinned": unpinned(resolved, layer)}
    if lock and (pins := pins_of(resolved, layer, lock)):
        shown = [pin.partition(" --hash=")[0] for pin in pins.values()]
        more = sum(each.dependency for each in lock.of(layer.name))
        lists["with --locked"] = [*shown, *([f"and {more} more that these need"] if more else [])]
    for label, words in lists.items():
        if words:
            yield Folded("  ", f"{label}: {', '.join(words)}", " " * 6, usual=_LIST_WIDTH)
