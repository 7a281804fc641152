"""``lumicontainer cache`` for a shared cache: list, verify, prune and publish."""

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lumicontainer.build.cache.shared import prune as pruning
from lumicontainer.build.cache.shared.prune import Published
from lumicontainer.build.cache.shared.publish import DAMAGED, NEW, THERE, objects_of, publish
from lumicontainer.build.cache.shared.shared import FOLDER, SharedCache
from lumicontainer.build.cache.store import Cache, Entry, step_name
from lumicontainer.commands import context
from lumicontainer.core.plan.plan import planned
from lumicontainer.errors import EXAMINED_FAILED, OK, HostError, InputError, Problem
from lumicontainer.host.recipes import word_of
from lumicontainer.system import units
from lumicontainer.system.os_errors import refused
from lumicontainer.system.terminal.output import print_json, print_table, say
from lumicontainer.system.terminal.progress import Progress

PUBLISHED = "what was published stays; ask the owner of the folder for space or permission"
_DAY = 86_400


def _shared() -> SharedCache:
    found = SharedCache.named()
    if found is None:
        hint = f"export {FOLDER}=DIR, a folder of your group"
        raise InputError(Problem("no shared cache is named", hint=hint))
    found.require()
    return found


def moment(arguments: argparse.Namespace) -> float:
    """Return the time before which ``--max-age`` removes objects; 0 without that option."""
    return time.time() - arguments.max_age * _DAY if arguments.max_age else 0


def about(entry: Entry) -> dict[str, Any]:
    """Return what JSON has of an object."""
    return {"name": entry.name, "step": entry.step, "kind": entry.kind, "bytes": entry.size}


def _list(arguments: argparse.Namespace) -> int:
    shared = _shared()
    names = shared.names()
    doubts = [doubt for name in names if (doubt := shared.doubt(name, name[:12]))]
    objects = [
        {**about(entry), "published": int(entry.used), "publisher": entry.publisher}
        for entry in sorted(shared.entries(), key=lambda entry: entry.used, reverse=True)
    ]
    if arguments.json:
        refused = [{"name": Path(doubt.where).name, "why": doubt.why} for doubt in doubts]
        print_json({"place": str(shared.root), "objects": objects, "not_taken": refused})
        return OK
    rows = [("step", "kind", "size", "published", "by")] if objects else []
    for each in objects:
        ago = units.age(time.time() - each["published"])
        rows.append((each["step"], each["kind"], units.size(each["bytes"]), ago, each["publisher"]))
    print_table(rows)
    for doubt in doubts:
        say(doubt)
    size = units.size(sum(each["bytes"] for each in objects))
    sys.stdout.write(f"{units.count(len(objects), 'object')}, {size}, in {shared.root}\n")
    return OK


def _verify(arguments: argparse.Namespace) -> int:
    shared = _shared()
    found, damaged = list(pruning.published(shared)), []
    with Progress(arguments.progress) as progress:
        progress.expect(len(found))
        for each in found:
            with progress.step(each.shown):
                why = shared.damage(each.folder.name)
            if why and shared.has(each.folder.name):  # Else its owner removed it.
                damaged.append({**_known(each), "why": why})
    whole = len(found) - len(damaged)
    if arguments.json:
        print_json({"place": str(shared.root), "whole": whole, "damaged": damaged})
    else:
        _print_verified(shared, whole, damaged)
    return EXAMINED_FAILED if damaged else OK


def _known(found: Published) -> dict[str, Any]:
    known = {"name": found.folder.name, "step": found.shown, "bytes": found.size}
    return {**known, "publisher": found.publisher}


def _print_verified(shared: SharedCache, whole: int, damaged: Iterable[Mapping[str, Any]]) -> None:
    for each in damaged:
        place, publisher = shared.root / each["name"], each["publisher"]
        sys.stdout.write(
            f"damaged: {each['step']}: {each['why']}\n  where: {place}\n"
            f"   hint: {publisher} removes it by rm -r {place}, and publishes it once more\n"
        )
    sys.stdout.write(f"{units.count(whole, 'object')} whole, in {shared.root}\n")


def _prune(arguments: argparse.Namespace) -> int:
    size, dry = arguments.max_size, arguments.dry_run
    if size is None and arguments.max_age is None:
        hint = "add --max-size SIZE, --max-age DAYS or both"
        raise InputError(Problem("a shared cache has no limit of its own", hint=hint))
    limit = None if size is None else units.parse_size(size, "--max-size")
    shared = _shared()
    found = list(pruning.published(shared))
    old = pruning.removable(found, limit=limit, before=moment(arguments), others=arguments.others)
    outcomes = [(each, pruning.remove(each, dry=dry)) for each in old]
    if not dry:
        shared.remove_drafts()
    removed = [_known(each) for each, problem in outcomes if problem is None]
    gone = sum(each["bytes"] for each in removed)
    left = sum(each.size for each in found) - gone
    data = {"removed": removed, "bytes": gone, "left": left, "limit": limit, "dry_run": dry}
    if arguments.json:
        print_json(data)
    else:
        print_pruned(shared.root, data, "others published it")
    if problems := [problem for _, problem in outcomes if problem]:
        raise HostError(*problems)
    return OK


def print_pruned(root: Path, data: Mapping[str, Any], why: str) -> None:
    """Print what was removed; ``why`` more can stay than the limit."""
    out = sys.stdout.write
    verb = "would remove" if data["dry_run"] else "removed"
    for each in data["removed"]:
        step = step_name(each["step"], each.get("kind", ""))
        publisher = f", of {each['publisher']}" if "publisher" in each else ""
        out(f"{verb} {step}, {units.size(each['bytes'])}{publisher}\n")
    for what, number in data.get("leftovers", {}).items():
        out(f"{verb} {what}: {number}\n")
    out(f"{verb} {units.size(data['bytes'])}, {units.size(data['left'])} stay in {root}\n")
    if data["limit"] is not None and data["left"] > data["limit"]:
        out(f"more stays than the limit, because {why}\n")


ACTIONS: Mapping[str, Callable[[argparse.Namespace], int]] = {
    "list": _list,
    "verify": _verify,
    "prune": _prune,
}
"""The changes that ``--shared`` makes."""


def publish_objects(store: Cache, arguments: argparse.Namespace) -> int:
    """Publish the objects of an image, or all."""
    if bool(arguments.recipe) == arguments.all:
        raise InputError(Problem("expected a recipe or --all", hint="name one of them"))
    shared = _shared()
    entries = list(store.open().entries()) if arguments.all else _objects_of(store, arguments)
    found: dict[str, list[dict[str, Any]]] = {NEW: [], THERE: [], DAMAGED: []}
    try:
        with Progress(arguments.progress) as progress:
            for each in publish(entries, store, shared, progress, key=arguments.sign):
                found[each.state].append(about(each.entry))
                if each.why:
                    progress.say(f"damaged: {each.entry.shown}: {each.why}")
    except OSError as error:
        raise refused(error, "cannot publish", str(shared.root), PUBLISHED) from error
    if arguments.json:
        states = {state.replace(" ", "_"): objects for state, objects in found.items()}
        print_json({"place": str(shared.root), **states})
    else:
        numbers = ", ".join(f"{len(found[state])} {state}" for state in found if found[state])
        place = shared.root if numbers else store.root
        sys.stdout.write(f"{numbers or 'the cache is empty'}: {place}\n")
    return EXAMINED_FAILED if found[DAMAGED] else OK


def _objects_of(store: Cache, arguments: argparse.Namespace) -> Sequence[Entry]:
    resolved = context.resolved_recipe(arguments, locked=arguments.locked)
    word = word_of(arguments.recipe, arguments.recipes)
    hint = f"lumicontainer build {word}{' --locked' * arguments.locked}"
    return objects_of(planned(resolved), store.open(), hint=hint)
