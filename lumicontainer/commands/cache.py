"""``lumicontainer cache``: list, verify, prune, explain and publish the cached layers."""

import argparse
import contextlib
import itertools
import shutil
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lumicontainer.build.cache import explain, written
from lumicontainer.build.cache.shared.shared import FOLDER, SharedCache
from lumicontainer.build.cache.store import UNREADABLE, Cache, Entry, object_name
from lumicontainer.build.cache.usage import size_limit, uses
from lumicontainer.commands import context, shared_cache
from lumicontainer.commands.parser import add_verb
from lumicontainer.commands.shared_cache import about
from lumicontainer.core.plan.plan import planned
from lumicontainer.errors import EXAMINED_FAILED, OK, HostError, InputError, Problem
from lumicontainer.jobs import folders
from lumicontainer.system import units
from lumicontainer.system.files import no_links
from lumicontainer.system.files.user_cache import cache_root
from lumicontainer.system.terminal.output import print_json, print_table, say
from lumicontainer.system.terminal.progress import Progress

MARK_LIFE = 90 * 86_400
"""Seconds after which the mark of a passed check is removed; the check then runs once more."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions of the verb and their options."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = add_verb(actions, "list", "list the objects, the most recently used first")
    verify = add_verb(actions, "verify", "read every byte, and move damaged objects aside")
    prune = add_verb(actions, "prune", "remove the least recently used or published objects")
    prune.add_argument(
        "--max-size",
        metavar="SIZE",
        help="the size to keep, such as 500M or 8G; 0 removes all that no running build uses; "
        "default: the limit of the cache",
    )
    summary = "remove what was last used, or published, more than DAYS ago"
    prune.add_argument("--max-age", metavar="DAYS", type=context.number, help=summary)
    prune.add_argument("--dry-run", action="store_true", help="print what would be removed")
    why = add_verb(
        actions, "explain", "print which steps of a recipe are cached, and why the first is not"
    )
    summary = f"use the shared cache, ${FOLDER}"
    for action in (listing, verify, prune):
        action.add_argument("--shared", action="store_true", help=summary)
    summary = "with --shared: also what others published, where you may write to it"
    prune.add_argument("--others", action="store_true", help=summary)
    context.add_options(why, *context.RECIPE)
    context.add_options(verify, "--progress")
    for action in (listing, verify, prune, why, _add_publish(actions)):
        context.add_options(action, "--json")


def _add_publish(actions: Any) -> argparse.ArgumentParser:
    parser = add_verb(
        actions, "publish", f"copy the objects of an image to the shared cache, ${FOLDER}"
    )
    parser.add_argument("recipe", nargs="?", **context.OPTIONS["recipe"])
    context.add_options(parser, *context.RECIPE[1:], "--progress")
    summary = "publish the image that was built with the pins of its lock"
    parser.add_argument("--locked", action="store_true", help=summary)
    parser.add_argument("--all", action="store_true", help="publish every object of the cache")
    summary = "sign the objects by an SSH key, so that other users can trust the key"
    parser.add_argument("--sign", metavar="KEY", default="", help=summary)
    return parser


def run(arguments: argparse.Namespace) -> int:
    """Run an action on the cache of the current user."""
    store = Cache(cache_root())
    if arguments.action == "publish":
        return shared_cache.publish_objects(store, arguments)
    if getattr(arguments, "shared", False):
        return shared_cache.ACTIONS[arguments.action](arguments)
    actions = {"list": _list, "verify": _verify, "prune": _prune, "explain": _explain}
    return actions[arguments.action](store, arguments)


def _list(store: Cache, arguments: argparse.Namespace) -> int:
    images: dict[str, list[str]] = {}
    for use in uses(store):
        if use.counts():
            for name in use.objects:
                images.setdefault(name, []).append(use.image)
    entries = _latest_first(store)
    objects = [
        {**about(entry), "used": int(entry.used), "images": images.get(entry.name, [])}
        for entry in entries
    ]
    data = {"place": str(store.root), "bytes": _total(objects), "limit": size_limit(store, entries)}
    data |= {"damaged": len(store.damaged()), "unreadable": len(_unreadable(store))}
    if arguments.json:
        print_json({**data, "objects": objects})
    else:
        _print_objects(objects)
        _print_totals(data, len(objects))
    return OK


def _print_objects(objects: Sequence[Mapping[str, Any]]) -> None:
    rows = [("step", "kind", "size", "used", "images")] if objects else []
    for each in objects:
        ago = units.age(time.time() - each["used"])
        first, more = each["images"][:1], len(each["images"]) - 1
        images = f"{''.join(first)} and {more} more" if more > 0 else "".join(first)
        rows.append((each["step"], each["kind"], units.size(each["bytes"]), ago, images))
    print_table(rows)


def _print_totals(data: Mapping[str, Any], number: int) -> None:
    size = f"{units.size(data['bytes'])} of at most {units.size(data['limit'])}"
    sys.stdout.write(f"{units.count(number, 'object')}, {size}, in {data['place']}\n")
    if data["damaged"]:
        found = units.count(data["damaged"], "damaged object")
        sys.stdout.write(f"{found} moved aside\n    hint: lumicontainer cache prune\n")
    if data["unreadable"]:
        found = units.count(data["unreadable"], "object")
        sys.stdout.write(f"{found} cannot be read\n    hint: lumicontainer cache verify\n")


def _total(objects: Iterable[Mapping[str, Any]]) -> int:
    return sum(each["bytes"] for each in objects)


def _latest_first(store: Cache) -> list[Entry]:
    return sorted(store.entries(), key=lambda entry: entry.used, reverse=True)


def _verify(store: Cache, arguments: argparse.Namespace) -> int:
    names = store.names()
    if not names and not arguments.json:
        sys.stdout.write(f"the cache is empty: {store.root}\n")
        return OK
    found = _examined(store, names, arguments.progress) if names else _Examined()
    if arguments.json:
        print_json(found._asdict())
    else:
        _print_examined(store, found)
    return EXAMINED_FAILED if found.damaged or found.unreadable else OK


class _Examined(NamedTuple):
    """Hold the number of whole objects, and the others with the reason."""

    whole: int = 0
    damaged: Sequence[Mapping[str, str]] = ()
    unreadable: Sequence[Mapping[str, str]] = ()


def _print_examined(store: Cache, found: _Examined) -> None:
    out = sys.stdout.write
    for each in found.damaged:
        out(f"damaged: {each['step']}: {each['why']}\n")
    for each in found.unreadable:
        place = store.folder(each["name"])
        out(f"cannot be read: {each['step']}: {each['why']}\n  where: {place}\n")
    out(f"{units.count(found.whole, 'object')} whole\n")
    if found.damaged:
        out(
            f"damaged objects were moved to {store.root / 'bad'}: the next build makes them again\n"
            "    hint: lumicontainer cache prune removes them; check the disk if it recurs\n"
        )
    if found.unreadable:
        out(f"objects that cannot be read stay\n    hint: {UNREADABLE}\n")


def _examined(store: Cache, names: Sequence[str], form: str) -> _Examined:
    store.open()
    whole, damaged, unreadable = 0, [], []
    with Progress(form) as progress:
        progress.expect(len(names))
        for name in names:
            entry = store.entry(name)
            shown = entry.shown if entry else name[:12]
            try:
                with progress.step(shown):
                    reason = store.examine(name)
            except FileNotFoundError:
                continue  # Another process removed it.
            except HostError as error:
                why = error.problems[0].why
                unreadable.append({"name": name, "step": shown, "why": why})
                continue
            if reason:
                damaged.append({"name": name, "step": shown, "why": reason})
            whole += not reason
    return _Examined(whole, damaged, unreadable)


def _prune(store: Cache, arguments: argparse.Namespace) -> int:
    size, dry = arguments.max_size, arguments.dry_run
    if arguments.others:
        raise InputError(Problem("--others is an option of --shared", hint="leave it out"))
    entries = _latest_first(store)
    limit = size_limit(store, entries) if size is None else units.parse_size(size, "--max-size")
    had = [about(entry) for entry in entries]
    gone: set[str] = set()
    leftovers: Mapping[str, int] = {}
    if store.root.is_dir():
        store.open()
        if not dry:
            _set_aside(store)
        gone = {
            entry.name
            for entry in store.prune(limit, before=shared_cache.moment(arguments), dry=dry)
        }
        leftovers = _remove_leftovers(store, dry=dry)
    removed = [each for each in had if each["name"] in gone]
    data = {
        "removed": removed,
        "leftovers": leftovers,
        "bytes": _total(removed),
        "left": _total(had) - _total(removed),
        "limit": limit,
        "dry_run": dry,
    }
    if arguments.json:
        print_json(data)
    else:
        shared_cache.print_pruned(store.root, data, "running builds use it")
        if not dry and store.root.is_dir():
            free = units.size(shutil.disk_usage(store.root).free)
            sys.stdout.write(f"{free} are free at {store.root}\n")
    return OK


def _set_aside(store: Cache) -> None:
    store.reclaim()
    folders.reclaim(store.root / folders.FOLDERS)
    for name in store.names():
        if store.entry(name) is None:
            with contextlib.suppress(FileNotFoundError, HostError):
                store.examine(name)


def _unreadable(store: Cache) -> list[str]:
    return [name for name in store.names() if store.entry(name) is None]


def _remove_leftovers(store: Cache, *, dry: bool) -> dict[str, int]:
    """Remove what serves nobody unless ``dry`` is set; return the number of each kind."""
    found = _leftovers(store)
    for path in () if dry else itertools.chain(*found.values()):
        with contextlib.suppress(FileNotFoundError):  # Another prune may remove the same.
            no_links.remove(path)
    unreadable = [name for name in _unreadable(store) if store.remove(name, dry=dry)]
    numbers = {what: len(paths) for what, paths in found.items()}
    numbers["objects that cannot be read"] = len(unreadable)
    return {what: number for what, number in numbers.items() if number}


def _leftovers(store: Cache) -> dict[str, Sequence[Path]]:
    oldest = time.time() - MARK_LIFE
    marks = []
    for path in written.files(store.root / "held"):
        with contextlib.suppress(FileNotFoundError):
            marks += [path] if path.stat().st_mtime < oldest else []
    return {
        "damaged objects": store.damaged(),
        "notes of images that are gone": [use.note for use in uses(store) if not use.counts()],
        "old marks of checks": marks,
    }


def _explain(store: Cache, arguments: argparse.Namespace) -> int:
    plan = planned(context.resolved_recipe(arguments))
    entries, shared = _latest_first(store), SharedCache.named()
    if shared:
        shared.require()
        entries = [*shared.entries(), *entries]
    parts = explain.walk(plan, entries)
    first = next((part for part in parts if part.state == explain.MISSING), None)
    relative = explain.closest(first, entries) if first else None
    found = explain.changes(first, relative) if first and relative else []
    doubt = None
    if shared and first:
        doubt = shared.doubt(object_name(first.key, first.below or ""), first.name)
    if arguments.json:
        data = {
            "recipe": plan.resolved.recipe.name,
            "parts": [_part(part) for part in parts],
            "missing": first and first.name,
            "nearest": relative and relative.name,
            "differences": [{"input": d.name, "before": d.before, "now": d.now} for d in found],
            "not_taken": doubt and doubt.why,
        }
        print_json(data)
        return OK
    _print_parts(parts)
    if doubt:
        say(doubt)
    _print_missing(first, relative, found)
    return OK


def _part(part: explain.Needed) -> dict[str, str]:
    about = {"name": part.name, "key": part.key, "state": part.state}
    return {**about, "publisher": part.publisher} if part.publisher else about


def _print_parts(parts: Iterable[explain.Needed]) -> None:
    rows = []
    for part in parts:
        publisher = f", from {part.publisher}" if part.publisher else ""
        rows.append((part.name, part.key[:12], part.state + publisher))
    print_table(rows)


def _print_missing(
    first: explain.Needed | None, relative: Entry | None, found: Iterable[explain.InputChange]
) -> None:
    out = sys.stdout.write
    if first and relative is None:
        out(f"'{first.name}' is missing: the cache has no object of this name\n")
    elif first and relative:
        ago = units.age(time.time() - relative.used)
        out(f"'{first.name}' is missing; the nearest object, used {ago}, differs in\n")
        out("".join(f"  {each}\n" for each in found))
