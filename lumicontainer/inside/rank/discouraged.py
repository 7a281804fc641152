"""Tell of what the user exported against better knowledge: it is obeyed, and one rank says why not.

The platform's table names variables, the values that are meant (all, where it names none), and
under which conditions of the image, the node and the run they do harm.
"""

from __future__ import annotations

from ..environment import USER, Setting
from .node_launcher import STARTED
from .variables import Seen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from .context import Context

_SHOWN = 80
"""How much of a value a warning shows."""


def judge(context: Context, settings: list[Setting]) -> None:
    """Add what is known against the user's values, to the warnings and to the settings' reasons.

    Ranks of a launcher that lumi-entry started warn of nothing: what started it has done so.
    """
    seen = Seen(context)
    for row in context.platform.get("discouraged", ()):
        if not is_meant(row, context.env.get(row["name"], "")):
            continue
        told = [seen.holds(name, wanted) for name, wanted in row.get("when", {}).items()]
        if not all(met for met, _ in told):
            continue
        _explain(row, context.env, settings)
        if STARTED not in context.env:
            context.warnings.append(_warning(row, context.env, [words for _, words in told]))


def is_meant(row: Mapping[str, Any], value: str) -> bool:
    """Tell whether a row of the table means a value; an empty one switches a variable off."""
    if not value:
        return False
    if "allowed_values" in row:
        return not _like_one(value, row["allowed_values"])
    return "values" not in row or _like_one(value, row["values"])


def _like_one(value: str, patterns: Iterable[str]) -> bool:
    return any(like(value, pattern) for pattern in patterns)


def like(value: str, pattern: str) -> bool:
    """Tell whether a value is as a pattern has it, in which ``*`` stands for any text."""
    first, *rest = pattern.split("*")
    if not rest:
        return value == pattern
    end = len(value) - len(rest[-1])
    if not (value.startswith(first) and value.endswith(rest[-1])):
        return False
    at = len(first)
    for part in rest[:-1]:
        found = value.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return at <= end


def _explain(row: Mapping[str, Any], env: Mapping[str, str], settings: list[Setting]) -> None:
    name = row["name"]
    setting = next((each for each in settings if each.name == name), None)
    if setting is None:
        setting = Setting(name, env[name], origin=USER, why="set already")
        settings.append(setting)
    setting.why += f"; discouraged: {row['reason']} [{row['source']}]"


def _warning(row: Mapping[str, Any], env: Mapping[str, str], facts: Iterable[str]) -> str:
    value = env[row["name"]][:_SHOWN]
    shown = value if value.isprintable() else ascii(value)
    found = ", ".join(filter(None, facts))
    return (
        f"{row['name']}={shown} is obeyed, and discouraged here{f' ({found})' if found else ''}\n"
        f"    why: {row['reason']} [{row['source']}]\n"
        f"   hint: {row['hint']}"
    )
