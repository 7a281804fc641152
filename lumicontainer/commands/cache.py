"""``lumicontainer cache``: list, verify, prune, explain and publish the cached layers."""

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from lumicontainer.api import caching, shared_cache
from lumicontainer.api.caching import (
    CacheContent,
    CacheRow,
    Examination,
    Explanation,
    Pruned,
    PruneRequest,
)
from lumicontainer.api.recipes import RecipeRequest
from lumicontainer.api.shared_cache import Publication, PublishRequest, SharedContent
from lumicontainer.cache.explain import Needed
from lumicontainer.cache.objects import step_name
from lumicontainer.cache.shared.shared import FOLDER
from lumicontainer.cache.store import UNREADABLE
from lumicontainer.commands import context
from lumicontainer.commands.parser import add_verb
from lumicontainer.errors import EXAMINED_FAILED, OK, HostError
from lumicontainer.system import units
from lumicontainer.system.terminal.output import print_table, say
from lumicontainer.system.terminal.progress import Progress


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
        actions,
        "explain",
        "print which steps of a recipe are cached, and why the first of the others is not",
    )
    summary = f"use the shared cache, ${FOLDER}"
    for action in (listing, verify, prune):
        action.add_argument("--shared", action="store_true", help=summary)
    summary = "with --shared: also what others published, if you may write to it"
    prune.add_argument("--others", action="store_true", help=summary)
    context.add_options(why, *context.RECIPE, "--cache-from")
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
    summary = "publish every object of the cache"
    parser.add_argument("--all", dest="every", action="store_true", help=summary)
    summary = "sign the objects with an SSH key, so that other users can trust the key"
    parser.add_argument("--sign", metavar="KEY", default="", help=summary)
    return parser


def run(arguments: argparse.Namespace) -> int | None:
    """Run an action on the cache of the current user, or on the shared one."""
    shared = getattr(arguments, "shared", False)
    return (_SHARED_ACTIONS if shared else _ACTIONS)[arguments.action](arguments)


def _list(arguments: argparse.Namespace) -> None:
    context.print_result(caching.list_cache(), arguments, _print_content)


def _images(row: CacheRow) -> str:
    first, more = "".join(row["images"][:1]), len(row["images"]) - 1
    return f"{first} and {more} more" if more > 0 else first


def _print_objects(
    objects: Sequence[CacheRow], when: str, label: str, last: Callable[[CacheRow], str]
) -> None:
    rows = [("step", "kind", "size", when, label)] if objects else []
    for each in objects:
        ago = units.age(time.time() - each[when])
        rows.append((each["step"], each["kind"], units.size(each["bytes"]), ago, last(each)))
    print_table(rows)


def _print_content(content: CacheContent) -> None:
    _print_objects(content.objects, "used", "images", _images)
    size = f"{units.size(content.bytes)} of at most {units.size(content.limit)}"
    objects = units.count(len(content.objects), "object")
    if content.downloads:
        objects += f" and {units.size(content.downloads)} of packages for extensions"
    sys.stdout.write(f"{objects}, {size}, in {content.place}\n")
    if content.damaged:
        damaged = units.count(content.damaged, "damaged object")
        sys.stdout.write(f"{damaged} moved aside\n    hint: lumicontainer cache prune\n")
    if content.unreadable:
        unreadable = units.count(content.unreadable, "object")
        sys.stdout.write(f"{unreadable} cannot be read\n    hint: lumicontainer cache verify\n")


def _list_shared(arguments: argparse.Namespace) -> None:
    context.print_result(shared_cache.list_shared(), arguments, _print_shared)


def _print_shared(content: SharedContent) -> None:
    objects = content.objects
    _print_objects(objects, "published", "by", lambda row: str(row["publisher"]))
    for doubt in content.doubts:
        say(doubt)
    size = units.size(caching.total(objects))
    sys.stdout.write(f"{units.count(len(objects), 'object')}, {size}, in {content.place}\n")


def _verify(arguments: argparse.Namespace) -> int:
    return _print_result(caching.verify_cache(Progress(arguments.progress)), arguments)


def _verify_shared(arguments: argparse.Namespace) -> int:
    return _print_result(shared_cache.verify_shared(Progress(arguments.progress)), arguments)


def _print_result(result: Examination, arguments: argparse.Namespace) -> int:
    context.print_result(result, arguments, _print_examined)
    return EXAMINED_FAILED if result.failed else OK


def _print_examined(result: Examination) -> None:
    out = sys.stdout.write
    moved = [each for each in result.damaged if "publisher" not in each]
    for each in result.damaged:
        out(f"damaged: {each['step']}: {each['why']}\n")
        if "publisher" in each:
            place = result.place / each["name"]
            hint = f"{each['publisher']} removes it by rm -r {place}, and publishes it once more"
            out(f"  where: {place}\n   hint: {hint}\n")
    for each in result.unreadable:
        place = result.folder(each["name"])
        out(f"cannot be read: {each['step']}: {each['why']}\n  where: {place}\n")
    out(f"{units.count(result.whole, 'object')} whole, in {result.place}\n")
    if moved:
        out(
            f"damaged objects were moved to {result.place / 'bad'}: "
            "the next build makes them again\n"
            "    hint: lumicontainer cache prune removes them; check the disk if it recurs\n"
        )
    if result.unreadable:
        out(f"objects that cannot be read stay\n    hint: {UNREADABLE}\n")


def _prune_request(arguments: argparse.Namespace) -> PruneRequest:
    size = arguments.max_size
    limit = None if size is None else units.parse_size(size, "--max-size")
    return context.request_of(PruneRequest, arguments, max_size=limit)


def _prune(arguments: argparse.Namespace) -> None:
    pruned = caching.prune_cache(_prune_request(arguments))
    context.print_result(pruned, arguments, _print_own_pruned)


def _print_own_pruned(pruned: Pruned) -> None:
    _print_pruned(pruned, "running builds use it")
    if not pruned.dry_run and (free := pruned.free()) is not None:
        sys.stdout.write(f"{units.size(free)} are free at {pruned.place}\n")


def _prune_shared(arguments: argparse.Namespace) -> None:
    pruned = shared_cache.prune_shared(_prune_request(arguments))
    context.print_result(
        pruned, arguments, lambda result: _print_pruned(result, "others published it")
    )
    if pruned.problems:
        raise HostError(*pruned.problems)


def _print_pruned(pruned: Pruned, why: str) -> None:
    """Print what was removed; ``why`` more can stay than the limit."""
    out = sys.stdout.write
    verb = "would remove" if pruned.dry_run else "removed"
    for each in pruned.removed:
        step = step_name(each["step"], each.get("kind", ""))
        publisher = f", of {each['publisher']}" if "publisher" in each else ""
        out(f"{verb} {step}, {units.size(each['bytes'])}{publisher}\n")
    for what, number in pruned.leftovers.items():
        out(f"{verb} {what}: {number}\n")
    size, left = units.size(pruned.bytes), units.size(pruned.left)
    out(f"{verb} {size}, {left} stay in {pruned.place}\n")
    if pruned.limit is not None and pruned.left > pruned.limit:
        out(f"more stays than the limit, because {why}\n")


def _explain(arguments: argparse.Namespace) -> None:
    request = context.request_of(RecipeRequest, arguments)
    explanation = caching.explain_cache(request, arguments.cache_from)
    context.print_result(explanation, arguments, _print_explanation)


def _print_explanation(explanation: Explanation) -> None:
    _print_parts(explanation.parts)
    if explanation.doubt:
        say(explanation.doubt)
    _print_missing(explanation)


def _print_parts(parts: Iterable[Needed]) -> None:
    rows = []
    for part in parts:
        publisher = f", from {part.publisher}" if part.publisher else ""
        rows.append((part.name, part.key[:12], part.state + publisher))
    print_table(rows)


def _print_missing(explanation: Explanation) -> None:
    out, first, nearest = sys.stdout.write, explanation.missing, explanation.nearest
    if first and nearest is None:
        out(f"'{first.name}' is missing: the cache has no object of this name\n")
    elif first and nearest:
        ago = units.age(time.time() - nearest.used)
        out(f"'{first.name}' is missing; the nearest object, used {ago}, differs in\n")
        out("".join(f"  {each}\n" for each in explanation.differences))


def _publish(arguments: argparse.Namespace) -> int:
    request = context.request_of(PublishRequest, arguments)
    publication = shared_cache.publish_objects(request, Progress(arguments.progress))
    context.print_result(publication, arguments, _print_publication)
    return EXAMINED_FAILED if publication.damaged else OK


def _print_publication(publication: Publication) -> None:
    place, objects = publication
    numbers = ", ".join(f"{len(rows)} {state}" for state, rows in objects.items() if rows)
    sys.stdout.write(f"{numbers or 'the cache is empty'}: {place}\n")


_ACTIONS: Mapping[str, Callable[[argparse.Namespace], int | None]] = {
    "list": _list,
    "verify": _verify,
    "prune": _prune,
    "explain": _explain,
    "publish": _publish,
}
_SHARED_ACTIONS: Mapping[str, Callable[[argparse.Namespace], int | None]] = {
    "list": _list_shared,
    "verify": _verify_shared,
    "prune": _prune_shared,
}
"""The changes that ``--shared`` makes."""
