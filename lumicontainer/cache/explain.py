"""Explain which objects of a plan are cached, and why an object is not."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lumicontainer.cache.objects import Entry, object_name, step_name
from lumicontainer.core.plan.steps import BASE, Plan

CACHED, MISSING, OPEN = "cached", "missing", "cached if the layers below do not change"
SHARED = "in the shared cache"


@dataclass(frozen=True)
class Needed:
    """Hold one object of the cache that a build needs."""

    step: str
    kind: str
    key: str
    inputs: Mapping[str, Any]
    below: str | None
    """The digest of the tree below it; None if that is not known yet."""
    state: str
    publisher: str = ""
    """Its publisher, if it is in the shared cache."""

    @property
    def name(self) -> str:
        """Return the name of its step in a build."""
        return step_name(self.step, self.kind)


_FIXED = {
    "parent": "the layer below changed",
    "compiled": "the compiled wheels changed",
    "program": "the template of steps changed",
}


@dataclass(frozen=True)
class InputChange:
    """Hold one input that changed; a missing side is None."""

    path: tuple[str, ...]
    before: Any
    now: Any

    @property
    def name(self) -> str:
        """Return the name of the input, with dots between its parts."""
        return ".".join(self.path)

    def __str__(self) -> str:
        change = _FIXED.get(self.name) or f"{_words(self.before)} → {_words(self.now)}"
        if self.path[0] == "files" and len(self.path) > 1:
            change = "new" if self.before is None else "removed"
            if _is_file(self.before) and _is_file(self.now):
                (mode, digest), (new_mode, new_digest) = self.before, self.now
                change = "changed" if digest != new_digest else f"mode {mode} → {new_mode}"
        return f"{self.name}: {change}"


def _is_file(value: Any) -> bool:
    """Return whether an input is the mode and the digest of a file."""
    return isinstance(value, list | tuple) and len(value) == len(("mode", "digest"))


def walk(
    plan: Plan, entries: Iterable[Entry], look: Callable[[str], Entry | None] = lambda _: None
) -> list[Needed]:
    """Return the objects that a build of the plan needs, in order.

    ``look`` returns an object by its name that ``entries`` do not have, or None.
    """
    cached = {entry.name: entry for entry in entries}
    keys = {entry.key for entry in cached.values()}
    parts: list[Needed] = []

    def find(key: str, below: str | None) -> Entry | None:
        if below is None:
            return None
        name = object_name(key, below)
        if name not in cached and (entry := look(name)):
            cached[name] = entry
        return cached.get(name)

    def add(
        name: str, kind: str, key: str, inputs: Mapping[str, Any], below: str | None
    ) -> str | None:
        """Add an object; return the digest of its tree, or None if it is not cached."""
        entry = find(key, below)
        state = OPEN if below is None and key in keys else MISSING
        publisher = entry.publisher if entry else ""
        if entry:
            state = SHARED if publisher else CACHED
        parts.append(Needed(name, kind, key, inputs, below, state, publisher))
        return entry.tree if entry else None

    tree = add(BASE, "layer", plan.base_key, plan.base_inputs, "")
    trees = {plan.base_key: tree}
    for step in plan.steps:
        below, wheels = tree, step.compiled
        if wheels and not find(step.key, below):
            add(wheels.name, "wheels", wheels.key, wheels.inputs, trees[wheels.parent])
        tree = trees[step.key] = add(step.name, "layer", step.key, step.inputs, below)
    return parts


def stack_of(plan: Plan, look: Callable[[str], Entry | None]) -> Iterator[Entry]:
    """Yield the layers of a plan from the base up, until ``look`` finds none of a name."""
    parent = ""
    for key in plan.keys:
        entry = look(object_name(key, parent))
        if entry is None:
            return
        yield entry
        parent = entry.tree


def differences(before: Any, now: Any, path: tuple[str, ...] = ()) -> list[InputChange]:
    """Return the inputs in which two mappings differ, ordered by name."""
    if _text(before) == _text(now):
        return []
    if not (isinstance(before, Mapping) and isinstance(now, Mapping)):
        return [InputChange(path, before, now)]
    names = sorted(before.keys() | now.keys())
    pairs = [(each, before.get(each), now.get(each)) for each in names]
    return [one for name, a, b in pairs for one in differences(a, b, (*path, name))]


def closest(part: Needed, entries: Sequence[Entry]) -> Entry | None:
    """Return the cached object of the same step with the fewest different inputs."""
    relatives = [e for e in entries if (e.step, e.kind) == (part.step, part.kind)]
    return min(relatives, key=lambda e: len(differences(e.inputs, part.inputs)), default=None)


def changes(part: Needed, relative: Entry) -> list[InputChange]:
    """Return the relevant changes of a part since a cached object of its step.

    The program depends on other inputs, so it is listed only if no other input changed. If no input
    changed, the layer below did.
    """
    inputs = differences(relative.inputs, part.inputs)
    if not inputs and relative.parent != part.below:
        return [InputChange(("parent",), relative.parent, part.below)]
    return [each for each in inputs if each.path != ("program",)] or inputs


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _words(value: Any) -> str:
    if isinstance(value, list | tuple):
        return " ".join(map(str, value)) or "(none)"
    return "(none)" if value is None else str(value)
