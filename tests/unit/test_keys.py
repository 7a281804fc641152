"""Every field that users write is tested: what its change rebuilds, and what it leaves."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lumicontainer.core import model
from lumicontainer.core.model import (
    LayerFile,
    LayerUse,
)
from lumicontainer.core.plan.steps import Plan
from lumicontainer.core.yaml.validators import COMPILE

from .fields_of_worlds import BASE, INSTALL, MATRIX, RECORD, STEP
from .worlds import (
    HERE,
    Change,
    World,
    random_world,
)

GENERATED = 1_000
"""Cases in all, spread evenly over the matrix."""


@pytest.mark.parametrize(
    ("effect", "change"), [pytest.param(*row[1:], id="-".join(row[:2])) for row in MATRIX]
)
@settings(
    max_examples=-(-GENERATED // len(MATRIX)),
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(drawn=st.integers(0, 10**9).map(random_world), word=st.integers(0, 10**9))
def test_a_change_of_a_field_rebuilds_what_it_decides_and_nothing_else(
    effect: str, change: Change, drawn: tuple[World, int], word: int
) -> None:
    world, number = drawn
    one, other = change(world, number, f"new{word}")
    before, after = one.plan(), other.plan()
    old, new = ([step.key for step in plan.steps] for plan in (before, after))
    first = {BASE: 0, STEP: number - 1, INSTALL: number - 1, RECORD: len(old) - 1}
    kept = first.get(effect, len(old))
    assert (before.base_key == after.base_key) == (effect != BASE)
    assert new[:kept] == old[:kept]
    assert not set(new[kept:]) & set(old[kept:])
    compiled = _compiled(before, after)
    expected = {
        name: effect == BASE
        or (effect in (STEP, INSTALL) and _lowest(one, name) >= number)
        or (effect == STEP and name == one.layers[number].name)
        for name in compiled
    }
    assert compiled == expected


def _compiled(before: Plan, after: Plan) -> dict[str, bool]:
    """Return, for each layer that compiles in both plans, whether its wheels have another key."""
    one, other = (
        {step.name: step.compiled.key for step in plan.steps if step.compiled}
        for plan in (before, after)
    )
    return {name: one[name] != other[name] for name in one.keys() & other.keys()}


def _lowest(world: World, name: str) -> int:
    """Return the number of the lowest layer on which another can compile."""
    names = [layer.name for layer in world.layers]
    return max(map(names.index, world.layers[names.index(name)].requires), default=0)


def test_the_matrix_names_every_field_that_users_write() -> None:
    types = [each for each in vars(model).values() if hasattr(each, "_fields")]
    written = {f"{each.__name__}.{field}" for each in types for field in each._fields}
    assert "Layer.files" in written
    assert written <= {row[0] for row in MATRIX}


@given(drawn=st.integers(0, 10**9).map(random_world))
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_what_a_layer_requires_decides_on_what_it_compiles(drawn: tuple[World, int]) -> None:
    world, number = drawn
    tool = world.layers[number]._replace(name="tool", requires=(), files=_compiling(world, number))
    uses = (*world.recipe.layers, LayerUse("tool", HERE))
    before = world._replace(layers=(*world.layers, tool), recipe=world.recipe._replace(layers=uses))
    after = before.with_layer(-1 % len(before.layers), requires=(world.layers[number].name,))
    assert _compiled(before.plan(), after.plan())["tool"]


def _compiling(world: World, number: int) -> tuple[LayerFile, ...]:
    files = [file for file in world.layers[number].files if file.name != COMPILE]
    return (*files, LayerFile(COMPILE, 0o644, b"make"))
