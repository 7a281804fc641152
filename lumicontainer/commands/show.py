"""``lumicontainer show``: every value of an image, and where it came from, or of a part of it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from typing import Any

from lumicontainer.commands import context, lock_option, show_parts
from lumicontainer.core.catalog import Catalog, open_catalog
from lumicontainer.core.lock.lock import Lock, entry_of, faults
from lumicontainer.core.model import Bind, Platform
from lumicontainer.core.plan.plan import planned
from lumicontainer.core.plan.records import platform_tables, record
from lumicontainer.core.resolve.inputs import layer_inputs, unpinned
from lumicontainer.core.resolve.resolve import Resolved, ResolvedLayer
from lumicontainer.core.schema.sources import is_pinned, label_of
from lumicontainer.core.shell import shell_value
from lumicontainer.errors import OK, InputError, Problem, Problems, did_you_mean
from lumicontainer.system.terminal.output import line, say
from lumicontainer.system.units import count

ORIGINS = {
    "layer": "the layer's default",
    "variant": "the layer's variant for this accelerator",
    "profile": "the profile",
    "recipe": "the recipe",
    "option": "the command line",
}


KINDS = ("recipe", "platform", "profile", "layer")
"""What a name is taken for, in this order."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    what = "a recipe, by its name or its file, or the name of a platform, a profile or a layer"
    context.add_recipe(parser, what=what, metavar="NAME")
    parser.add_argument(
        "--kind", choices=KINDS, help="what NAME is of; default: the first of these that has it"
    )
    context.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print what has the name that is given."""
    catalog, name = open_catalog(arguments.recipes), arguments.recipe
    show = {"platform": _platform, "profile": _profile, "layer": _layer}.get(
        _kind(catalog, arguments)
    )
    if show:
        show(catalog, name, arguments.json)
    else:
        _recipe(arguments)
    return OK


def _kind(catalog: Catalog, arguments: argparse.Namespace) -> str:
    """Return what kind of thing is meant; raise ``InputError`` where nothing has the name."""
    lists = (catalog.recipe_names, catalog.platform_names, catalog.profile_names)
    names = dict(zip(KINDS, (each() for each in (*lists, catalog.layer_names)), strict=True))
    kinds = [arguments.kind] if arguments.kind else KINDS
    name = arguments.recipe
    found = [kind for kind in kinds if name in names[kind]]
    if not found:
        *others, last = kinds
        what = f"{', '.join(others)} or {last}" if others else last
        file = context.nearby(name)
        known = {each for kind in kinds for each in names[kind]}
        hint = f"name its file: lumicontainer show {file}" if file else did_you_mean(name, known)
        raise InputError(Problem(f"there is no {what} '{name}'", hint=hint))
    for kind in found[1:]:
        say(f"note: there is a {kind} '{name}' too: lumicontainer show {name} --kind {kind}")
    return found[0]


def _platform(catalog: Catalog, name: str, as_json: bool) -> None:
    platform = catalog.platform(name)
    if as_json:
        context.print_json(_platform_data(platform))
    else:
        _print_platform(platform)


def _profile(catalog: Catalog, name: str, as_json: bool) -> None:
    profile = catalog.profile(name)
    if as_json:
        context.print_json(show_parts.profile_data(profile))
    else:
        show_parts.print_profile(profile)


def _layer(catalog: Catalog, name: str, as_json: bool) -> None:
    problems = Problems()
    layer = catalog.layer(name, problems)
    problems.raise_if_any()
    assert layer is not None
    if as_json:
        context.print_json(show_parts.layer_data(layer))
    else:
        show_parts.print_layer(layer)


def _recipe(arguments: argparse.Namespace) -> None:
    resolved = context.resolved_recipe(arguments)
    found = lock_option.lock_of(resolved, arguments)
    if arguments.json:
        context.print_json(as_data(resolved, found))
    else:
        _print(resolved, found)


def _print(resolved: Resolved, found: tuple[str, Lock] | None) -> None:
    sys.stdout.write(f"{resolved.recipe.name}: {resolved.recipe.summary}\n")
    _print_platform(resolved.platform)
    if resolved.profile:
        sys.stdout.write(f"profile {resolved.profile.name}: {resolved.profile.summary}\n")
    if found:
        _print_lock(resolved, *found)
    own = [bind for bind in resolved.binds() if bind not in resolved.platform.binds]
    _print_binds("bind", own)
    _print_binds("library of the host", resolved.host_libraries())
    for layer in resolved.layers:
        sys.stdout.write(f"\n{layer.name}: {layer.summary}\n")
        _print_layer(resolved, layer, found[1] if found else None)


def _print_platform(platform: Platform) -> None:
    out = sys.stdout.write
    out(f"platform {platform.name}: {platform.summary} (accelerator {platform.accelerator})\n")
    if platform.driver:
        out(f"  driver {platform.driver}\n")
    if platform.proot:
        out(f"  definitions are built with PRoot: {platform.proot}\n")
    for number, gpu in enumerate(platform.gpus):
        kept = f", core {gpu.reserved} reserved" if gpu.reserved else ""
        out(f"  gpu {number}  {gpu.pci}  cores {gpu.cores}{kept}, NUMA node {gpu.numa}\n")
    if platform.interface_prefix:
        out(f"  interfaces {platform.interface_prefix}*\n")
    _print_binds("bind", platform.binds)
    for each in platform.variables:
        value = each.value or f"(from {each.value_from})"
        when = ", ".join(f"{name} {wanted}" for name, wanted in each.when.items())
        out(f"  variable {each.name}={line(value)}{f'  when {when}' if when else ''}\n")
        out(f"    {each.reason} [{each.source}]\n")
    for row in platform.discouraged:
        wanted = "|".join(row.values) or f"other than {'|'.join(row.allowed_values)}"
        value = wanted if row.values or row.allowed_values else "any value"
        when = ", ".join(f"{name} {limit}" for name, limit in row.when.items())
        out(f"  discouraged {row.name}: {value}{f'  when {when}' if when else ''}\n")
        out(f"    {row.reason} [{row.source}]; hint: {row.hint}\n")
    for cache in platform.caches:
        out(f"  cache {cache.name}  {cache.storage}: {cache.folder}\n")
        out(f"    {cache.reason} [{cache.source}]\n")


def _print_binds(what: str, binds: Iterable[Bind]) -> None:
    for each in binds:
        source = f" [{each.source}]" if each.source else ""
        sys.stdout.write(f"  {what} {each.path}\n    {each.reason}{source}\n")


def _platform_data(platform: Platform) -> dict[str, Any]:
    head = {"name": platform.name, "summary": platform.summary}
    binds = {"binds": [bind._asdict() for bind in platform.binds]} if platform.binds else {}
    driver = {"driver": platform.driver} if platform.driver else {}
    own = {"accelerator": platform.accelerator, **driver, **binds}
    return {**head, **own, **platform_tables(platform)}


def _print_lock(resolved: Resolved, path: str, lock: Lock) -> None:
    wrong = faults(lock, resolved)
    means = "it does not hold all of this image:" if wrong else "build --locked takes nothing else"
    sys.stdout.write(f"lock {path}: {count(lock.count(), 'pin')}; {means}\n")
    for each in wrong:
        sys.stdout.write(f"  {each}\n")


def _print_layer(resolved: Resolved, layer: ResolvedLayer, lock: Lock | None) -> None:
    if layer.omitted:
        sys.stdout.write(f"  left out: {layer.omitted}\n")
        return
    context.print_table(
        [
            (
                setting.name,
                shell_value(setting.value),
                f"{ORIGINS[setting.origin]}, {setting.place}",
            )
            for setting in layer.settings
        ]
    )
    for name, value in layer.content.environment.items():
        sys.stdout.write(f"  environment {name}={line(value)}\n")
    for folder in layer.content.path:
        sys.stdout.write(f"  path {folder}\n")
    for source in layer.content.sources:
        if is_pinned(source):
            sys.stdout.write(f"  source {label_of(source)}\n")
    open_inputs = unpinned(resolved, layer)
    if open_inputs:
        sys.stdout.write(f"  not pinned: {', '.join(open_inputs)}\n")
    pins = _pins(resolved, layer, lock)
    if pins:
        more = sum(each.dependency for each in lock.of(layer.name)) if lock else 0
        shown = [pin.partition(" --hash=")[0] for pin in pins.values()]
        shown += [f"and {more} more that these need"] if more else []
        sys.stdout.write(f"  with --locked: {', '.join(shown)}\n")


def _pins(resolved: Resolved, layer: ResolvedLayer, lock: Lock | None) -> dict[str, str]:
    """Return what a lock pins of what the recipe leaves open, by the words for it."""
    if lock is None:
        return {}
    wanted = [each for each in layer_inputs(resolved, layer) if not each.pinned]
    found = [(each.label, entry_of(lock, each)) for each in wanted]
    return {words: entry.pin for words, entry in found if entry and entry.pin}


def as_data(resolved: Resolved, found: tuple[str, Lock] | None) -> dict[str, Any]:
    """Return the resolved recipe as plain data, with its lock where it has one."""
    path, lock = found or ("", None)
    about = {"file": path, "pins": lock.count(), "faults": faults(lock, resolved)} if lock else None
    always: dict[str, Any] = {"profile": None, "binds": [], "host_libraries": [], "lock": about}
    data = {**always, **record(resolved), "platform": _platform_data(resolved.platform)}
    for layer in resolved.included():
        entry = data["layers"][layer.name]
        entry["places"] = {setting.name: setting.place for setting in layer.settings}
        entry["sources"] = [label_of(source) for source in layer.content.sources]
        entry["not_pinned"] = list(unpinned(resolved, layer))
        entry["locked"] = _pins(resolved, layer, lock)
    data["steps"] = [{"name": step.name, "key": step.key} for step in planned(resolved).steps]
    return data
