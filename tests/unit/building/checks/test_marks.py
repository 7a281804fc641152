"""A check that passed is not run again while what it sees is the same."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lumicontainer.building.checks.marks import (
    Due,
    checks_of,
    environment_of,
    has_passed,
    note_passed,
)
from lumicontainer.building.checks.reading import Reading
from lumicontainer.cache.objects import Entry
from lumicontainer.cache.store import Cache
from lumicontainer.core.model import Check, LayerFile
from lumicontainer.inside.checking import DUE_PATHS, EVERY_PATH, HIDDEN, UNDECLARED

from ...worlds import WORLD

FILE = LayerFile("checks/a.sh", 0o644, b"true\n")
PLAIN = Check("image/a", FILE, "x", "y", reads=("/usr/*",))
EACH = PLAIN._replace(each_path=True)
PATHS = {"/a": b"a" * 16, "/b": b"b" * 16}


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache").open()


def due(check: Check = PLAIN, whole: str = "whole", mark: str = "mark") -> Due:
    return Due(check, whole, mark)


def reading(paths: Mapping[str, bytes] = PATHS) -> Reading:
    return Reading({}, paths)


def test_a_check_passed_for_all_images_with_what_it_reads(cache: Cache) -> None:
    assert not has_passed(cache, due(), reading())
    note_passed(cache, due(), {}, reading())
    assert has_passed(cache, due(whole="another"), reading())
    assert has_passed(cache, due(mark="another"), reading())
    assert not has_passed(cache, due(whole="another", mark="another"), reading())


def test_a_check_that_does_not_say_what_it_reads_passed_for_the_whole_image(cache: Cache) -> None:
    note_passed(cache, due(mark=""), {}, reading())
    assert has_passed(cache, due(mark=""), reading())
    assert not has_passed(cache, due(whole="another", mark=""), reading())


def test_a_check_that_read_more_than_it_says_passed_for_the_whole_image(cache: Cache) -> None:
    note_passed(cache, due(), {UNDECLARED: ["/srv/a"]}, reading())
    assert has_passed(cache, due(), reading())
    assert not has_passed(cache, due(whole="another"), reading())


def named(cache: Cache, one: Due, paths: Mapping[str, bytes]) -> str:
    return environment_of(cache, [one], reading(paths))[DUE_PATHS]


def test_a_check_of_each_path_judges_the_new_ones(cache: Cache) -> None:
    note_passed(cache, due(EACH), {HIDDEN: []}, reading())
    one = due(EACH, whole="another")
    assert has_passed(cache, one, reading())
    more = {**PATHS, "/b": b"B" * 16, "/c": b"c" * 16}
    assert not has_passed(cache, one, reading(more))
    assert named(cache, one, more) == "/b:/c"
    assert named(cache, due(PLAIN, whole="another"), more) == EVERY_PATH


def test_what_was_hidden_while_a_check_passed_is_judged_later(cache: Cache) -> None:
    note_passed(cache, due(EACH), {HIDDEN: ["/a"]}, reading({**PATHS, "/a/b": b"c" * 16}))
    assert named(cache, due(EACH, whole="another"), PATHS) == "/a"


@pytest.mark.parametrize("facts", [{}, {HIDDEN: 1}])
def test_a_check_that_does_not_say_what_was_hidden_judges_all_again(
    cache: Cache, facts: Mapping[str, Any]
) -> None:
    note_passed(cache, due(EACH), facts, reading())
    assert has_passed(cache, due(EACH), reading())
    assert named(cache, due(EACH, whole="another"), PATHS) == "/a:/b"


@pytest.mark.parametrize("path", ["/a b", "/a:b", "/a'b", "/a,b", "/ä", "/" + "a" * 60_000])
def test_all_paths_are_judged_where_the_new_ones_cannot_be_named(cache: Cache, path: str) -> None:
    note_passed(cache, due(EACH), {HIDDEN: []}, reading())
    assert named(cache, due(EACH, whole="another"), {**PATHS, path: b"c" * 16}) == EVERY_PATH


def marks(digests: Mapping[str, str], host: str = "", **changes: Any) -> dict[str, Due]:
    world = WORLD.with_layer(**changes)
    plan = world.plan()
    parent, stack = "", []
    for step in ("base", *(each.name for each in plan.steps)):
        stack.append(Entry(Path(), step, "", step, "layer", parent, {}, step, size=0, used=0))
        parent = stack[-1].tree
    return {one.check.name: one for one in checks_of(plan, tuple(stack), digests, host)}


def test_a_mark_covers_what_is_read_and_the_variables_and_the_host() -> None:
    known = marks({"tool/a": "1"}, "/srv")["tool/a"]
    content = WORLD.layer.content
    loud = content._replace(environment={**content.environment, "MODE": "loud"})
    assert marks({"tool/a": "1"}, "/srv")["tool/a"] == known
    others = [
        marks({"tool/a": "2"}, "/srv"),
        marks({"tool/a": "1"}, "/tmp"),
        marks({"tool/a": "1"}, "/srv", content=loud),
        marks({"tool/a": "1"}, "/srv", content=content._replace(path=("/opt/bin",))),
    ]
    assert known.mark not in [each["tool/a"].mark for each in others]
    assert marks({})["tool/a"].mark == ""
