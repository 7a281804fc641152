"""Format decisions for --print-env: as text, and as JSON."""

from __future__ import annotations

import json

from ..launch.program import activated, interpreter
from ..rank.affinity import place
from .decide import Decision


def as_text(decision: Decision) -> str:
    """Return one line a variable: its value for the program, its origin, the reason."""
    rows = [
        (f"{s.name}={s.value}" if s.value is not None else f"{s.name} unset", s.origin, s.why)
        for s in decision.settings
    ]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    lines = [f"{row[0]:<{widths[0]}}  {row[1]:<{widths[1]}}  {row[2]}" for row in rows]
    heads = [
        f"launcher: {decision.launch.name} ({decision.launch.title})",
        f"ranks: {decision.context.start.described()}",
    ]
    if activated(decision.context.env):
        heads.append(f"python: {interpreter()} (of the active VIRTUAL_ENV)")
    if decision.context.gpu is not None:
        heads.append("place: " + ", ".join(f"{name} {value}" for name, value in _place(decision)))
    return "\n".join([*heads, *lines, ""])


def as_json(decision: Decision) -> str:
    """Return one line of JSON, so that several ranks can print to one stdout."""
    start = decision.context.start
    record = {
        "launcher": decision.launch.name,
        "title": decision.launch.title,
        "python": interpreter(),
        "ranks": {"by": start.launcher, "here": start.workers, "why": start.why},
        "variables": [
            {"name": s.name, "value": s.value, "origin": s.origin, "why": s.why}
            for s in decision.settings
        ],
        "place": dict(_place(decision)),
        "warnings": decision.warnings,
    }
    return json.dumps(record) + "\n"


def _place(decision: Decision) -> list[tuple[str, str]]:
    binding = decision.context.binding
    return place(decision.context, binding.cpus if binding is not None else None)
