"""``lumicontainer show``: print every value of a recipe and its origin, or one document."""

import argparse
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import yaml

from lumicontainer.commands import context
from lumicontainer.core.catalog import Catalog
from lumicontainer.core.lock import Lock, faults
from lumicontainer.core.model import LayerFile, Profile
from lumicontainer.core.plan.plan import planned
from lumicontainer.core.plan.records import resolved_record
from lumicontainer.core.resolve.decisions import Resolved, ResolvedLayer
from lumicontainer.core.resolve.inputs import layer_inputs, unpinned
from lumicontainer.core.shell import shell_value
from lumicontainer.core.yaml import nodes
from lumicontainer.errors import OK, InputError, Place, Problem, did_you_mean
from lumicontainer.host.recipes import find_lock, nearby
from lumicontainer.system.terminal.output import (
    columns,
    line,
    print_folded,
    print_json,
    print_table,
    say,
)
from lumicontainer.system.units import count

ORIGINS = {
    "layer": "the layer's default",
    "variant": "the layer's variant for this accelerator",
    "profile": "the profile",
    "recipe": "the recipe",
    "option": "the command line",
}
_ALWAYS = ("default", "requires", "parameters")
"""The fields that are printed even if they are empty."""
_FORMS: Mapping[type, Callable[[Any], Any]] = {
    Place: str,
    nodes.Scalar: lambda scalar: scalar.text,
    nodes.Sequence: lambda found: [plain(each) for each in found.items],
    LayerFile: lambda file: file.name,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    summary = "a recipe, by its name or its file, or a platform, a profile or a layer by its name"
    parser.add_argument("recipe", metavar="NAME", help=summary)
    context.add_options(parser, *context.RECIPE[1:])
    summary = "the kind of NAME; default: the first kind that has it"
    parser.add_argument("--kind", choices=KINDS, help=summary)
    context.add_options(parser, "--json")


def run(arguments: argparse.Namespace) -> int:
    """Print the recipe, platform, profile or layer of the given name."""
    catalog = context.catalog_of(arguments)
    kind = _kind(catalog, arguments)
    if kind == "recipe":
        resolved = context.resolved_recipe(arguments)
        found = find_lock(resolved, catalog)
        if arguments.json:
            print_json(_resolved_data(resolved, found))
        else:
            _print_resolved(resolved, found)
        return OK
    _refuse_recipe_options(arguments, kind)
    data = DOCUMENTS[kind](catalog, arguments.recipe)
    if arguments.json:
        print_json(data)
    else:
        text = yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=100)
        sys.stdout.write(f"# {kind} {arguments.recipe}\n{text}")
    return OK


def _kind(catalog: Catalog, arguments: argparse.Namespace) -> str:
    names = {kind: catalog.names(kind) for kind in KINDS}
    kinds = [arguments.kind] if arguments.kind else KINDS
    name = arguments.recipe
    found = [kind for kind in kinds if name in names[kind]]
    if not found:
        file = nearby(name)
        known = {each for kind in kinds for each in names[kind]}
        why, hint = catalog.other_kind(kinds[0], name) if arguments.kind else ("", "")
        hint = f"name its file: {file}" if file else hint or did_you_mean(name, known)
        *others, last = kinds
        what = f"{', '.join(others)} or {last}" if others else last
        raise InputError(Problem(f"{what} '{name}' not found", why=why, hint=hint))
    for kind in found[1:]:
        say(f"note: there is a {kind} '{name}' too: lumicontainer show {name} --kind {kind}")
    return found[0]


def _refuse_recipe_options(arguments: argparse.Namespace, kind: str) -> None:
    options = {"--platform": arguments.platform, "--profile": arguments.profile}
    options["--set"] = arguments.options
    hint = f"leave it out: '{arguments.recipe}' is a {kind}"
    what = "{} is an option of a recipe"
    given = [Problem(what.format(option), hint=hint) for option, value in options.items() if value]
    if given:
        raise InputError(*given)


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
KINDS = ("recipe", *DOCUMENTS)
"""The kinds in which a name is searched, in this order."""


def _print_resolved(resolved: Resolved, found: tuple[str, Lock] | None) -> None:
    for text in (*_head(resolved), *(_lock_lines(resolved, *found) if found else ())):
        _print_indented(text)
    for layer in resolved.layers:
        sys.stdout.write("\n")
        print_folded("", f"{layer.name}: {layer.summary}")
        if layer.omitted:
            print_folded("  left out: ", layer.omitted)
            continue
        rows = [
            (each.name, shell_value(each.value), f"{ORIGINS[each.origin]}, {each.place}")
            for each in layer.settings
        ]
        print_table(rows)
        for text in _layer_lines(resolved, layer, found[1] if found else None):
            _print_indented(f"  {text}")


def _print_indented(text: str) -> None:
    own = " " * (len(text) - len(text.lstrip()))
    print_folded(own, text.strip(), below=f"{own}  ")


def _head(resolved: Resolved) -> Iterator[str]:
    platform = resolved.platform
    yield f"{resolved.recipe.name}: {resolved.recipe.summary}"
    yield f"platform {platform.name}: {platform.summary} (accelerator {platform.accelerator})"
    if resolved.profile:
        yield f"profile {resolved.profile.name}: {resolved.profile.summary}"
    for label, binds in (
        ("bind", resolved.binds()),
        ("library of the host", resolved.host_libraries()),
    ):
        for each in binds:
            source = f" [{each.source}]" if each.source else ""
            yield f"  {label} {each.path}"
            yield f"    {each.reason}{source}"


def _lock_lines(resolved: Resolved, path: str, lock: Lock) -> Iterator[str]:
    wrong = faults(lock, resolved)
    state = "it does not pin all of this image:" if wrong else "build --locked uses these only"
    yield f"lock {path}: {count(lock.pins(), 'pin')}; {state}"
    yield from (f"  {each}" for each in wrong)


def _layer_lines(resolved: Resolved, layer: ResolvedLayer, lock: Lock | None) -> Iterator[str]:
    for name, value in layer.content.environment.items():
        yield f"environment {name}={line(value)}"
    yield from (f"path {folder}" for folder in layer.content.path)
    for name, folders in layer.content.prepend.items():
        yield f"prepend {name}={':'.join(folders)}"
    sources = [source.input() for source in layer.content.sources]
    yield from (f"source {each.label}" for each in sources if each.pinned)
    yield from _folded("not pinned", unpinned(resolved, layer))
    if lock and (pins := _pins(resolved, layer, lock)):
        shown = [pin.partition(" --hash=")[0] for pin in pins.values()]
        more = sum(each.dependency for each in lock.of(layer.name))
        shown += [f"and {more} more that these need"] if more else []
        yield from _folded("with --locked", shown)


def _folded(label: str, words: Sequence[str]) -> list[str]:
    """Return words behind a label, in lines that fit a terminal."""
    lines = textwrap.TextWrapper(columns(98) - 2, subsequent_indent="    ", break_on_hyphens=False)
    lines.break_long_words = False
    return lines.wrap(f"{label}: {', '.join(words)}") if words else []


def _pins(resolved: Resolved, layer: ResolvedLayer, lock: Lock) -> dict[str, str]:
    wanted = [each for each in layer_inputs(resolved, layer) if not each.pinned]
    named = lock.named()
    found = [(each.label, named.get(each.key)) for each in wanted]
    return {label: entry.pin for label, entry in found if entry and entry.pin}


def _resolved_data(resolved: Resolved, found: tuple[str, Lock] | None) -> dict[str, Any]:
    path, lock = found or ("", None)
    about = {"file": path, "pins": lock.pins(), "faults": faults(lock, resolved)} if lock else None
    always: dict[str, Any] = {"profile": None, "binds": [], "host_libraries": [], "lock": about}
    data = {**always, **resolved_record(resolved), "platform": plain(resolved.platform)}
    for layer in resolved.included():
        entry = data["layers"][layer.name]
        entry["places"] = {setting.name: setting.place for setting in layer.settings}
        entry["sources"] = [source.input().label for source in layer.content.sources]
        entry["not_pinned"] = list(unpinned(resolved, layer))
        entry["locked"] = _pins(resolved, layer, lock) if lock else {}
    data["steps"] = [{"name": step.name, "key": step.key} for step in planned(resolved).steps]
    return data
