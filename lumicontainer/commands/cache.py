"""``lumicontainer cache``: what the cache holds, whether it is whole, and why it lacks a step."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import shutil
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lumicontainer.build.cache import explain
from lumicontainer.build.cache.store import Cache, Entry, parse_size, size_limit
from lumicontainer.build.cache.usage import uses
from lumicontainer.commands import context
from lumicontainer.core.plan.plan import planned
from lumicontainer.errors import EXAMINED_FAILED, OK
from lumicontainer.system import units
from lumicontainer.system.files.user_cache import cache_root
from lumicontainer.system.terminal.progress import FORMS, Progress

MARK_LIFE = 90 * 86_400
"""Seconds after which a noted check is forgotten; it would only be run once more."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's own verbs and their options."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    def action(name: str, summary: str) -> argparse.ArgumentParser:
        told = summary[0].upper() + summary[1:]
        return actions.add_parser(name, help=summary, description=told, allow_abbrev=False)

    context.add_json(action("list", "list the objects, the most recently used first"))
    verify = action("verify", "read every byte, and move damaged objects aside")
    verify.add_argument(
        "--progress", choices=FORMS, default="auto", help="how to tell of it; default: %(default)s"
    )
    context.add_json(verify)
    prune = action("prune", "remove the least recently used objects")
    prune.add_argument(
        "--max-size",
        metavar="SIZE",
        help="what may stay, such as 500M or 8G; 0 removes all that no running build uses; "
        "default: the limit of the cache",
    )
    prune.add_argument("--dry-run", action="store_true", help="print what would go, keep it")
    context.add_json(prune)
    why = action("explain", "say which steps of a recipe are cached, and why the first is not")
    context.add_recipe(why)
    context.add_json(why)


def run(arguments: argparse.Namespace) -> int:
    """Do what was asked with the cache of the present user."""
    store = Cache(cache_root())
    actions = {"list": _list, "verify": _verify, "prune": _prune, "explain": _explain}
    return actions[arguments.action](store, arguments)


def _list(store: Cache, arguments: argparse.Namespace) -> int:
    images: dict[str, list[str]] = {}
    for use in uses(store):
        if use.counts():
            for name in use.objects:
                images.setdefault(name, []).append(use.image)
    objects = [
        {**_about(entry), "used": int(entry.used), "images": images.get(entry.name, [])}
        for entry in _latest_first(store)
    ]
    told = {"place": str(store.root), "bytes": _total(objects), "limit": size_limit()}
    told["damaged"] = len(store.damaged())
    if arguments.json:
        context.print_json({**told, "objects": objects})
    else:
        _print_objects(objects)
        _print_totals(told, len(objects))
    return OK


def _print_objects(objects: Sequence[Mapping[str, Any]]) -> None:
    rows = [("step", "kind", "size", "used", "images")] if objects else []
    for each in objects:
        ago = units.age(time.time() - each["used"])
        row = (each["step"], each["kind"], units.size(each["bytes"]), ago)
        rows.append((*row, ", ".join(each["images"])))
    context.print_table(rows)


def _print_totals(told: Mapping[str, Any], number: int) -> None:
    room = f"{units.size(told['bytes'])} of at most {units.size(told['limit'])}"
    sys.stdout.write(f"{units.count(number, 'object')}, {room}, in {told['place']}\n")
    if told["damaged"]:
        found = units.count(told["damaged"], "damaged object")
        sys.stdout.write(f"{found} moved aside\n    hint: lumicontainer cache prune\n")


def _total(objects: Iterable[Mapping[str, Any]]) -> int:
    return sum(each["bytes"] for each in objects)


def _latest_first(store: Cache) -> list[Entry]:
    return sorted(store.entries(), key=lambda entry: entry.used, reverse=True)


def _about(entry: Entry) -> dict[str, Any]:
    about = {"name": entry.name, "step": entry.step, "kind": entry.kind}
    return {**about, "bytes": entry.size}


def _verify(store: Cache, arguments: argparse.Namespace) -> int:
    names = store.names()
    if not names and not arguments.json:
        sys.stdout.write(f"the cache is empty: {store.root}\n")
        return OK
    whole, damaged = _examined(store, names, arguments.progress) if names else (0, [])
    if arguments.json:
        context.print_json({"whole": whole, "damaged": damaged})
    else:
        _print_examined(store, whole, damaged)
    return EXAMINED_FAILED if damaged else OK


def _examined(store: Cache, names: Sequence[str], form: str) -> tuple[int, list[dict[str, str]]]:
    """Return how many objects are whole, and what the others are and lack."""
    store.open()
    whole, damaged = 0, []
    with Progress(form) as progress:
        progress.expect(len(names))
        for name in names:
            entry = store.entry(name)
            shown = _shown(entry.step, entry.kind) if entry else name[:12]
            try:
                with progress.step(shown):
                    reason = store.examine(name)
            except FileNotFoundError:
                continue  # Somebody removed it meanwhile.
            if reason:
                damaged.append({"name": name, "step": shown, "why": reason})
            whole += not reason
    return whole, damaged


def _print_examined(store: Cache, whole: int, damaged: Sequence[Mapping[str, str]]) -> None:
    for each in damaged:
        sys.stdout.write(f"damaged: {each['step']}: {each['why']}\n")
    sys.stdout.write(f"{units.count(whole, 'object')} whole\n")
    if not damaged:
        return
    bad = store.root / "bad"
    sys.stdout.write(
        f"the damaged ones were moved to {bad}: the next build makes them again\n"
        "    hint: lumicontainer cache prune removes them; if it happens again, doubt the disk\n"
    )


def _shown(step: str, kind: str) -> str:
    return f"{step}: compile" if kind == "wheels" else step


def _prune(store: Cache, arguments: argparse.Namespace) -> int:
    limit = (
        size_limit() if arguments.max_size is None else parse_size(arguments.max_size, "--max-size")
    )
    dry = arguments.dry_run
    had = [_about(entry) for entry in _latest_first(store)]
    gone: set[str] = set()
    leftovers: Mapping[str, Sequence[Path]] = {}
    if store.root.is_dir():
        store.open()
        _set_aside(store, dry=dry)
        gone = {entry.name for entry in store.prune(limit, dry=dry)}
        leftovers = _leftovers(store)
        for path in () if dry else itertools.chain(*leftovers.values()):
            _remove(path)
    removed = [about for about in had if about["name"] in gone]
    told = {
        "removed": removed,
        "leftovers": {what: len(paths) for what, paths in leftovers.items() if paths},
        "bytes": _total(removed),
        "left": _total(had) - _total(removed),
        "limit": limit,
        "dry_run": dry,
    }
    if arguments.json:
        context.print_json(told)
    else:
        _print_pruned(store, told)
    return OK


def _set_aside(store: Cache, *, dry: bool) -> None:
    """Put what no build can use where the rest of a prune removes it."""
    if dry:
        return
    store.reclaim()
    for name in store.names():
        if store.entry(name) is None:
            with contextlib.suppress(FileNotFoundError):
                store.examine(name)


def _leftovers(store: Cache) -> dict[str, Sequence[Path]]:
    """Return what a prune removes beside objects, whatever the size."""
    oldest = time.time() - MARK_LIFE
    marks = [path for path in store.root.glob("held/*") if _last_written(path) < oldest]
    return {
        "damaged objects": store.damaged(),
        "notes of images that are gone": [use.note for use in uses(store) if not use.counts()],
        "old marks of checks": marks,
    }


def _last_written(path: Path) -> float:
    with contextlib.suppress(FileNotFoundError):
        return path.stat().st_mtime
    return time.time()


def _remove(path: Path) -> None:
    # Another prune may be removing the same.
    with contextlib.suppress(FileNotFoundError):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def _print_pruned(store: Cache, told: Mapping[str, Any]) -> None:
    verb = "would remove" if told["dry_run"] else "removed"
    for each in told["removed"]:
        shown = _shown(each["step"], each["kind"])
        sys.stdout.write(f"{verb} {shown}, {units.size(each['bytes'])}\n")
    for what, number in told["leftovers"].items():
        sys.stdout.write(f"{verb} {what}: {number}\n")
    gone, left = units.size(told["bytes"]), units.size(told["left"])
    sys.stdout.write(f"{verb} {gone}, {left} stay in {store.root}\n")
    if told["left"] > told["limit"]:
        sys.stdout.write("more stays than was asked, because running builds use it\n")
    if not told["dry_run"] and store.root.is_dir():
        free = units.size(shutil.disk_usage(store.root).free)
        sys.stdout.write(f"{free} are free at {store.root}\n")


def _explain(store: Cache, arguments: argparse.Namespace) -> int:
    plan = planned(context.resolved_recipe(arguments))
    entries = _latest_first(store)
    parts = explain.walk(plan, entries)
    first = next((part for part in parts if part.state == explain.MISSING), None)
    relative = explain.nearest(first, entries) if first else None
    found = explain.told(first, relative) if first and relative else []
    if arguments.json:
        context.print_json(
            {
                "recipe": plan.resolved.recipe.name,
                "parts": [
                    {"name": part.name, "key": part.key, "state": part.state} for part in parts
                ],
                "missing": first and first.name,
                "nearest": relative and relative.name,
                "differences": [
                    {"input": each.name, "before": each.before, "now": each.now} for each in found
                ],
            }
        )
        return OK
    context.print_table([(part.name, part.key[:12], part.state) for part in parts])
    if first:
        _print_reason(first, relative, found)
    return OK


def _print_reason(
    first: explain.Part, relative: Entry | None, found: Sequence[explain.Difference]
) -> None:
    out = sys.stdout.write
    if relative is None:
        out(f"'{first.name}' is missing: the cache has none of this name\n")
        return
    ago = units.age(time.time() - relative.used)
    out(f"'{first.name}' is missing; the nearest that the cache has, used {ago}, differs in\n")
    for each in found:
        out(f"  {each}\n")
