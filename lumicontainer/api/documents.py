"""The values of a recipe with their origins, and other documents, as plain data."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lumicontainer.api.recipes import RecipeRequest
from lumicontainer.core.catalog import Catalog, open_catalog
from lumicontainer.core.lock import Lock, faults
from lumicontainer.core.model import LayerFile, Profile
from lumicontainer.core.plan.plan import planned
from lumicontainer.core.plan.records import resolved_record
from lumicontainer.core.resolve.decisions import Resolved, ResolvedLayer
from lumicontainer.core.resolve.inputs import layer_inputs, unpinned
from lumicontainer.core.yaml import nodes
from lumicontainer.errors import InputError, Place, Problem, Problems, did_you_mean
from lumicontainer.host.machine import platform_here
from lumicontainer.host.recipes import find_lock, locate_recipe, nearby

_ALWAYS = ("default", "requires", "parameters")
"""The fields that are printed even if they are empty."""
_FORMS: Mapping[type, Callable[[Any], Any]] = {
    Place: str,
    nodes.Scalar: lambda scalar: scalar.text,
    nodes.Sequence: lambda sequence: [plain(each) for each in sequence.items],
    LayerFile: lambda file: file.name,
}


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


@dataclass(frozen=True)
class ShownDocument:
    """Hold a platform, a profile or a layer as plain data."""

    kind: str
    data: Mapping[str, Any]
    other_kinds: Sequence[str] = ()


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
        return ShownDocument(kind, DOCUMENTS[kind](catalog, name), others)
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
