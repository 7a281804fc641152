"""Each step that is not in the cache is reported with the input that changed."""

import copy
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumicontainer.cache.explain import (
    CACHED,
    MISSING,
    OPEN,
    SHARED,
    Needed,
    changes,
    closest,
    differences,
    walk,
)
from lumicontainer.cache.objects import Entry, object_name
from lumicontainer.core.plan.plan import make_plan
from lumicontainer.core.plan.steps import Plan
from lumicontainer.core.resolve.decisions import Resolved

from ...conftest import HELLO

Resolve = Callable[..., Resolved]
PARTS = ["base", "greet: compile", "greet"]
COMPILED = {"layers/greet/compile.sh": "set -euo pipefail\ntouch $wheels/a.whl\n"}

texts = st.text("ab.é", max_size=2)
leaves = st.booleans() | st.integers() | texts | st.lists(texts, max_size=2)
values = st.recursive(leaves, lambda inner: st.dictionaries(texts, inner, max_size=3), max_leaves=4)
mappings = st.dictionaries(texts, values, max_size=4)


def entry(part: Needed, parent: str, digest: str) -> Entry:
    name = object_name(part.key, parent)
    about = (part.key, part.step, part.kind, parent, part.inputs, digest)
    return Entry(Path(name), name, *about, size=0, used=0)


def built(plan: Plan, salt: str = "") -> list[Entry]:
    """Return what the cache has once a plan was built; ``salt`` gives other contents."""
    entries: list[Entry] = []
    for _ in range(2 * len(plan.steps) + 1):
        missing = [part for part in walk(plan, entries) if part.state == MISSING]
        ready = [part for part in missing if part.below is not None]
        for part in ready[:1]:
            digest = hashlib.sha256(f"{part.key}{salt}".encode()).hexdigest()
            entries.append(entry(part, part.below or "", digest))
    return entries


def states(plan: Plan, entries: list[Entry]) -> dict[str, str]:
    return {part.name: part.state for part in walk(plan, entries)}


def reason(plan: Plan, entries: list[Entry]) -> tuple[str, str]:
    """Return the first part that is missing, and the only change that explains it."""
    first = next(part for part in walk(plan, entries) if part.state == MISSING)
    relative = closest(first, entries)
    assert relative is not None
    (change,) = changes(first, relative)
    return first.name, str(change)


def test_of_an_empty_cache_everything_is_missing(resolved: Resolve) -> None:
    plan = make_plan(resolved(COMPILED), ())
    assert states(plan, []) == dict.fromkeys((*PARTS, "lumicontainer"), MISSING)


def test_what_others_have_is_theirs(resolved: Resolve) -> None:
    plan = make_plan(resolved(COMPILED), ())
    base, *rest = (replace(each, publisher="alice") for each in built(plan))
    theirs = {each.name: each for each in rest}
    parts = walk(plan, [replace(base, publisher="")], theirs.get)
    assert {each.name: (each.state, each.publisher) for each in parts} == {
        "base": (CACHED, ""),
        "greet": (SHARED, "alice"),
        "lumicontainer": (SHARED, "alice"),
    }


def test_after_a_build_everything_is_cached_and_no_wheels_are_wanted(resolved: Resolve) -> None:
    plan = make_plan(resolved(COMPILED), ())
    assert states(plan, built(plan)) == dict.fromkeys(("base", "greet", "lumicontainer"), CACHED)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "old", "new", "part", "why"),
    [
        ("tiny/layer.yaml", "bookworm,", "trixie,", "base", "release: bookworm → trixie"),
        ("tiny/layer.yaml", "[py", "[sl, py", "base", "include: python3 → sl python3"),
        ("greet/layer.yaml", "t: h", "t: H", "greet: compile", "values.greeting: hello → Hello"),
        ("greet/compile.sh", "touch", "touch  ", "greet: compile", "files.compile.sh: changed"),
        ("greet/install.sh", "echo", "echo  ", "greet", "files.install.sh: changed"),
    ],
)
def test_the_first_part_that_a_change_leaves_uncached_is_explained(
    resolved: Resolve, file: str, old: str, new: str, part: str, why: str
) -> None:
    before = {**HELLO, **COMPILED}
    entries = built(make_plan(resolved(before), ()))
    path = f"layers/{file}"
    plan = make_plan(resolved({**before, path: before[path].replace(old, new)}), ())
    cached = [name for name, state in states(plan, entries).items() if state == CACHED]
    assert cached == PARTS[: PARTS.index(part)]
    assert reason(plan, entries) == (part, why)


def test_what_stood_on_a_removed_layer_may_be_cached_again(resolved: Resolve) -> None:
    plan = make_plan(resolved(), ())
    entries = [entry for entry in built(plan) if entry.step != "base"]
    assert states(plan, entries) == {"base": MISSING, "greet": OPEN, "lumicontainer": OPEN}


def test_a_layer_below_that_came_out_otherwise_is_reported(resolved: Resolve) -> None:
    plan = make_plan(resolved(), ())
    base, *_ = built(plan, "today")
    entries = [base, *built(plan, "long ago")[1:]]
    assert reason(plan, entries) == ("greet", "parent: the layer below changed")


def wheel(inputs: Mapping[str, Any], key: str = "key") -> Needed:
    return Needed("step", "wheels", key, inputs, "below", MISSING)


def test_the_nearest_has_the_fewest_differences_and_is_of_the_same_step() -> None:
    inputs = {"a": 1, "b": {"c": 2, "d": 3}}
    far = entry(wheel({"a": 0, "b": {"c": 0, "d": 3}}, "far"), "", "1")
    near = entry(wheel({"a": 1, "b": {"c": 2, "d": 4}}, "near"), "", "2")
    alien = entry(Needed("step", "layer", "x", inputs, "", CACHED), "", "3")
    assert closest(wheel(inputs), [alien, far, near]) == near
    assert closest(wheel(inputs), [alien]) is None


def test_the_program_is_reported_only_where_nothing_else_differs() -> None:
    old = entry(wheel({"a": 1, "program": "p"}), "", "d")
    (change,) = changes(wheel({"a": 1, "program": "q"}), old)
    assert str(change) == "program: the template of steps changed"
    (change,) = changes(wheel({"a": 2, "program": "q"}), old)
    assert str(change) == "a: 1 → 2"


FILE = ["644", "1"]


@pytest.mark.parametrize(
    ("before", "now", "line"),
    [
        ({"apt": ("one", "two")}, {"apt": []}, "apt: one two → (none)"),
        ({"environment": {"A": "x"}}, {"environment": {}}, "environment.A: x → (none)"),
        ({"files": {"a": FILE}}, {"files": {"a": ["755", "1"]}}, "files.a: mode 644 → 755"),
        ({"files": {"a": FILE}}, {"files": {"a": ["644", "2"]}}, "files.a: changed"),
        ({"files": {"a": FILE}}, {"files": {}}, "files.a: removed"),
        ({"files": {}}, {"files": {"a": FILE}}, "files.a: new"),
        ({"parent": "1"}, {"parent": "2"}, "parent: the layer below changed"),
        ({"values": {"on": 1}}, {"values": {"on": True}}, "values.on: 1 → True"),
    ],
)
def test_a_difference_reads_well(before: dict[str, Any], now: dict[str, Any], line: str) -> None:
    assert [str(each) for each in differences(before, now)] == [line]


def test_a_list_and_a_tuple_of_the_same_are_one() -> None:
    assert differences({"a": ("x",)}, {"a": ["x"]}) == []


@pytest.mark.slow
@given(mappings, mappings)
def test_the_differences_are_all_that_leads_from_one_to_the_other(
    before: dict[str, Any], now: dict[str, Any]
) -> None:
    changed = copy.deepcopy(before)
    changes = differences(before, now)
    assert changes == sorted(changes, key=lambda each: each.path)
    for each in changes:
        *folders, name = each.path
        place = changed
        for folder in folders:
            place = place[folder]
        assert place.get(name) == each.before
        if each.now is None:
            del place[name]
        else:
            place[name] = each.now
    assert differences(changed, now) == []
    assert changed == now
