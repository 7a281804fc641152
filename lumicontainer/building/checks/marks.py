"""Mark checks that passed by what they see of an image, and choose those that a build runs."""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from lumicontainer.building.checks.reading import MARK, Reading
from lumicontainer.cache.store import Cache
from lumicontainer.core.model import Check, Checks
from lumicontainer.core.model.check import LEVELS
from lumicontainer.core.plan.steps import Plan
from lumicontainer.core.plan.variables import fold
from lumicontainer.inside.checking import DUE_PATHS, EVERY_PATH, HIDDEN, UNDECLARED
from lumicontainer.sandbox.builder import Stack

_LONGEST = 60_000
"""Bytes of a variable with the paths that are due; Linux takes twice as many (MAX_ARG_STRLEN)."""
_PLAIN = re.compile(r"[A-Za-z0-9@_./+~=-]+")
"""Paths that every engine passes on in a variable."""


class Due(NamedTuple):
    """Hold one check of an image, and the marks under which its success is recorded."""

    check: Check
    whole: str
    """It covers all layers that the check can see."""
    mark: str = ""
    """It covers what the check says that it reads; empty if it does not say that."""


def quick_checks(plan: Plan) -> list[Check]:
    """Return the checks that a build runs."""
    owned = (*(layer.checks for layer in plan.resolved.included()), plan.resolved.checks)
    return [each for checks in owned for each in checks.each if each.level == LEVELS[0]]


def checks_of(
    plan: Plan, stack: Stack, digests: Mapping[str, str] = {}, host: str = ""
) -> Iterator[Due]:
    """Yield the quick checks of an image; a mark covers the check, its layer and all below it.

    It covers the variables and the search path of these layers, too. The mark of a check of the
    image covers all layers. ``digests`` are those of what checks read, by their names, and ``host``
    are the folders of the host that checks look for; such a mark covers all variables of the image.
    """
    trees = {entry.step: entry.tree for entry in stack}
    below = stack[0].tree
    variables: Mapping[str, str] = {}
    path: tuple[str, ...] = ()
    whole = json.dumps([dict(plan.environment), plan.path, sorted(plan.lists), host])

    def due(checks: Checks, tree: str, sees: str = "") -> Iterator[Due]:
        own = {check.file.name for check in checks.each}
        common = [file.content for file in checks.files if file.name not in own]
        for check in checks.each:
            if check.level == LEVELS[0]:
                read = digests.get(check.name)
                mark = _mark(check, common, read, whole) if read else ""
                yield Due(check, _mark(check, common, tree, sees), mark)

    for layer in plan.resolved.included():
        below = trees.get(layer.name, below)
        content = layer.content
        variables = fold(variables, content.environment, content.prepend)
        path = (*content.path, *path)
        yield from due(layer.checks, below, json.dumps([variables, path], sort_keys=True))
    yield from due(plan.resolved.checks, stack[-1].tree)


def _mark(check: Check, common: Sequence[bytes], tree: str, sees: str) -> str:
    parts = (check.name.encode(), tree.encode(), sees.encode(), check.file.content, *common)
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def has_passed(cache: Cache, one: Due, reading: Reading) -> bool:
    """Return whether a check has passed with all that it sees."""
    if cache.has_passed(one.whole):
        return True
    if not one.mark or not cache.has_passed(one.mark):
        return False
    return not one.check.each_path or not _due_paths(cache, one, reading)


def note_passed(cache: Cache, one: Due, facts: Mapping[str, Any], reading: Reading) -> None:
    """Record that a check has passed; ``facts`` are what it noted.

    One that read more than it says holds for the whole image alone, and so does one of each path
    that does not say over which something was mounted: these it did not see.
    """
    cache.note_passed(one.whole)
    if not one.mark or facts.get(UNDECLARED):
        return
    if not one.check.each_path:
        cache.note_passed(one.mark)
    elif isinstance(mounted := facts.get(HIDDEN), list):
        hidden = tuple(f"{each}/" for each in mounted)
        seen = (mark for path, mark in reading.paths.items() if not f"{path}/".startswith(hidden))
        cache.note_passed(one.mark, b"".join(seen))


def environment_of(cache: Cache, due: Iterable[Due], reading: Reading) -> dict[str, str]:
    """Return the variable that names the paths that checks of each path have to judge.

    It names every path where those that are due are too many, or have odd names.
    """
    judging = [one for one in due if one.check.each_path]
    paths = {path for one in judging for path in _due_paths(cache, one, reading)}
    text = ":".join(sorted(paths))
    fits = 0 < len(text) <= _LONGEST and all(map(_PLAIN.fullmatch, paths))
    return {DUE_PATHS: text if fits else EVERY_PATH}


def _due_paths(cache: Cache, one: Due, reading: Reading) -> list[str]:
    """Return the paths that a check has not judged yet, as they are."""
    passed = cache.passed_for(one.mark) if one.mark else b""
    known = {passed[at : at + MARK] for at in range(0, len(passed), MARK)}
    return [path for path, mark in reading.paths.items() if mark not in known]
