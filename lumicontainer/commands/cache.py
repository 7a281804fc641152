"""``lumicontainer cache``: list, verify, prune, explain and publish the cached layers."""

import argparse
from collections.abc import Callable, Mapping
from typing import Any

from lumicontainer.api import caching, shared_cache
from lumicontainer.api.caching import PruneRequest
from lumicontainer.api.recipes import RecipeRequest
from lumicontainer.api.shared_cache import PublishRequest
from lumicontainer.cache.shared.shared import FOLDER
from lumicontainer.commands import context
from lumicontainer.commands.parser import add_verb
from lumicontainer.errors import EXAMINED_FAILED, OK, HostError
from lumicontainer.system import units
from lumicontainer.system.terminal.output import say
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
    return _ACTIONS[arguments.action](arguments)


def _list(arguments: argparse.Namespace) -> None:
    if not arguments.shared:
        context.print_result(caching.list_cache(), arguments)
        return
    content = shared_cache.list_shared()
    for doubt in () if arguments.json else content.doubts:
        say(doubt)
    context.print_result(content, arguments)


def _verify(arguments: argparse.Namespace) -> int:
    verify = shared_cache.verify_shared if arguments.shared else caching.verify_cache
    result = verify(Progress(arguments.progress))
    context.print_result(result, arguments)
    return EXAMINED_FAILED if result.failed else OK


def _prune(arguments: argparse.Namespace) -> None:
    size = arguments.max_size
    limit = None if size is None else units.parse_size(size, "--max-size")
    request = context.request_of(PruneRequest, arguments, max_size=limit)
    prune = shared_cache.prune_shared if arguments.shared else caching.prune_cache
    pruned = prune(request)
    context.print_result(pruned, arguments)
    if pruned.problems:
        raise HostError(*pruned.problems)


def _explain(arguments: argparse.Namespace) -> None:
    request = context.request_of(RecipeRequest, arguments)
    explanation = caching.explain_cache(request, arguments.cache_from)
    if explanation.doubt and not arguments.json:
        say(explanation.doubt)
    context.print_result(explanation, arguments)


def _publish(arguments: argparse.Namespace) -> int:
    request = context.request_of(PublishRequest, arguments)
    publication = shared_cache.publish_objects(request, Progress(arguments.progress))
    context.print_result(publication, arguments)
    return EXAMINED_FAILED if publication.damaged else OK


_ACTIONS: Mapping[str, Callable[[argparse.Namespace], int | None]] = {
    "list": _list,
    "verify": _verify,
    "prune": _prune,
    "explain": _explain,
    "publish": _publish,
}
