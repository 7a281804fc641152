"""Say what of a plan the cache has, and why the first thing that it lacks is not there."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lumicontainer.build.cache.store import Entry, object_name
from lumicontainer.core.plan.plan import BASE, Plan

CACHED, MISSING, OPEN = "cached", "missing", "cached if what is below comes out as before"


@dataclass(frozen=True)
class Part:
    """Hold one object that a build needs."""

    step: str
    kind: str
    key: str
    inputs: Mapping[str, Any]
    below: str | None
    """The digest of what it is made upon; None where that is not there yet."""
    state: str

    @property
    def name(self) -> str:
        """Return how a build calls it."""
        return f"{self.step}: compile" if self.kind == "wheels" else self.step


@dataclass(frozen=True)
class Difference:
    """Hold one input that is another now; a side that lacks it has None."""

    path: tuple[str, ...]
    before: Any
    now: Any

    @property
    def name(self) -> str:
        """Return the name of the input, with dots between its parts."""
        return ".".join(self.path)

    def __str__(self) -> str:
        fixed = {
            "parent": "the layer below is another",
            "compiled": "the compiled wheels are others",
            "program": "the way in which steps are written has changed",
        }
        if self.path[0] == "files" and len(self.path) > 1:
            return f"{self.name}: {self._file()}"
        told = fixed.get(self.name) or f"{_words(self.before)} → {_words(self.now)}"
        return f"{self.name}: {told}"

    def _file(self) -> str:
        if self.before is None:
            return "new"
        if self.now is None:
            return "no longer there"
        (mode, digest), (new_mode, new_digest) = self.before, self.now
        return "changed" if digest != new_digest else f"mode {mode} → {new_mode}"


def walk(plan: Plan, entries: Iterable[Entry]) -> list[Part]:
    """Return what a build of the plan needs, in order; ``entries`` is what the cache has."""
    have = _Have(entries)
    found = [have.part(BASE, "layer", plan.base_key, plan.base_inputs, "")]
    trees = {plan.base_key: have.tree(found[-1])}
    for step in plan.steps:
        layer = have.part(step.name, "layer", step.key, step.inputs, have.tree(found[-1]))
        wheels = step.compiled
        if wheels and layer.state != CACHED:
            tree = trees[wheels.parent]
            found.append(have.part(wheels.name, "wheels", wheels.key, wheels.inputs, tree))
        found.append(layer)
        trees[step.key] = have.tree(layer)
    return found


class _Have:
    """Answer what the cache has."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._entries = {entry.name: entry for entry in entries}
        self._keys = {entry.key for entry in self._entries.values()}

    def part(
        self, step: str, kind: str, key: str, inputs: Mapping[str, Any], below: str | None
    ) -> Part:
        if below is None:
            state = OPEN if key in self._keys else MISSING
        else:
            state = CACHED if object_name(key, below) in self._entries else MISSING
        return Part(step, kind, key, inputs, below, state)

    def tree(self, part: Part) -> str | None:
        if part.state != CACHED or part.below is None:
            return None
        return self._entries[object_name(part.key, part.below)].tree


def differences(before: Any, now: Any, path: tuple[str, ...] = ()) -> list[Difference]:
    """Return in which inputs two mappings differ, in the order of their names."""
    if _text(before) == _text(now):
        return []
    if not (isinstance(before, Mapping) and isinstance(now, Mapping)):
        return [Difference(path, before, now)]
    return [
        difference
        for name in sorted(before.keys() | now.keys())
        for difference in differences(before.get(name), now.get(name), (*path, name))
    ]


def nearest(part: Part, entries: Sequence[Entry]) -> Entry | None:
    """Return the object of the same step whose inputs differ least, the first of equals."""
    relatives = [e for e in entries if (e.step, e.kind) == (part.step, part.kind)]
    return min(relatives, key=lambda e: len(differences(e.inputs, part.inputs)), default=None)


def told(part: Part, relative: Entry) -> list[Difference]:
    """Return the differences of a part to a relative that say something.

    The program is made of the other inputs, and is told where it alone differs. Where no input
    differs, the layer below has other content.
    """
    found = differences(relative.inputs, part.inputs)
    if not found and relative.parent != part.below:
        return [Difference(("parent",), relative.parent, part.below)]
    return [each for each in found if each.path != ("program",)] or found


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _words(value: Any) -> str:
    if isinstance(value, list | tuple):
        return " ".join(map(str, value)) or "(none)"
    return "(none)" if value is None else str(value)
