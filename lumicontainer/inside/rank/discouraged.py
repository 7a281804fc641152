"""Warn about exported variables that do harm here. They are kept, and one rank says why not.

The platform's table names the variables, the harmful values (all by default), and the conditions
on the image, the node and the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from ..environment import Setting, kept
from .context import Context
from .node_launcher import STARTED
from .variables import Seen

_SHOWN = 80
"""Characters of a value in a warning."""


def judge(context: Context, settings: list[Setting]) -> None:
    """Add a warning for each discouraged variable, and the reason to its setting.

    Ranks of a launcher that lumi-entry started do not warn: that lumi-entry has.
    """
    seen = Seen(context)
    for row in context.platform.get("discouraged", ()):
        if not is_meant(row, context.env.get(row["name"], "")):
            continue
        results = [seen.holds(name, wanted) for name, wanted in row.get("when", {}).items()]
        if not all(met for met, _ in results):
            continue
        _explain(row, context.env, settings)
        if STARTED not in context.env:
            context.warnings.append(_warning(row, context.env, [words for _, words in results]))


def is_meant(row: Mapping[str, Any], value: str) -> bool:
    """Return whether a row of the table is about a value; an empty value never is."""
    if not value:
        return False
    if "allowed_values" in row:
        return not _matches(value, row["allowed_values"])
    return "values" not in row or _matches(value, row["values"])


def _matches(value: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(value, pattern) for pattern in patterns)


def _explain(row: Mapping[str, Any], env: Mapping[str, str], settings: list[Setting]) -> None:
    name = row["name"]
    if all(each.name != name for each in settings):
        settings.append(kept(env, name))
    more = f"; discouraged: {row['reason']} [{row['source']}]"
    settings[:] = [
        each._replace(why=each.why + more) if each.name == name else each for each in settings
    ]


def _warning(row: Mapping[str, Any], env: Mapping[str, str], facts: Iterable[str]) -> str:
    value = env[row["name"]][:_SHOWN]
    shown = value if value.isprintable() else ascii(value)
    found = ", ".join(filter(None, facts))
    return (
        f"{row['name']}={shown} is kept, but discouraged here{f' ({found})' if found else ''}\n"
        f"    why: {row['reason']} [{row['source']}]\n"
        f"   hint: {row['hint']}"
    )
