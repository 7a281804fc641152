"""A cache loses what was unused for longest, and what took longest to make goes last."""

from collections.abc import Collection
from typing import NamedTuple

from lumicontainer.cache.pruning import prune


class Object(NamedTuple):
    kind: str
    size: int
    used: float


OLD, NEWER, NEWEST = (Object("layer", 10, used) for used in (1, 2, 3))
WHEELS = Object("wheels", 10, 0)


def pruned(*, limit: int | None = None, before: float = 0, kept: Collection[Object] = ()):
    """Return what is removed of all objects; those ``kept`` are in use."""
    objects = [NEWEST, WHEELS, OLD, NEWER]
    return prune(objects, lambda each: each not in kept, limit=limit, before=before)


def test_the_least_recently_used_go_until_the_rest_fits() -> None:
    assert pruned(limit=40) == []
    assert pruned(limit=25) == [OLD, NEWER]


def test_compiled_wheels_go_last_although_they_are_the_oldest() -> None:
    assert pruned(limit=10) == [OLD, NEWER, NEWEST]
    assert pruned(limit=0) == [OLD, NEWER, NEWEST, WHEELS]


def test_what_was_not_used_since_a_moment_goes_whatever_its_kind() -> None:
    assert pruned(before=2) == [OLD, WHEELS]


def test_others_go_in_place_of_one_that_is_in_use() -> None:
    assert pruned(limit=25, kept=[OLD]) == [NEWER, NEWEST]
