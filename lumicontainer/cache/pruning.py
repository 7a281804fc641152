"""Choose the objects that a cache loses."""

import math
from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

from lumicontainer.system.files.ages import seconds_since


class Prunable(Protocol):
    """An object of a cache."""

    @property
    def kind(self) -> str:
        """Return "layer", "wheels" or the kind of a copy."""

    @property
    def size(self) -> int:
        """Return its size in bytes."""

    @property
    def used(self) -> float:
        """Return the time of its last use or publication, in seconds since 1970."""


Object = TypeVar("Object", bound=Prunable)


def prune(
    objects: Iterable[Object],
    remove: Callable[[Object], bool],
    *,
    limit: int | None = None,
    before: float = 0,
) -> list[Object]:
    """Remove the least recently used objects until they have at most ``limit`` bytes.

    Compiled wheels go last: they are small, and compiling is what takes longest. What was last used
    ``before`` a moment goes too. ``remove`` returns whether it removed the object. Returns the
    removed objects.
    """
    oldest_first = sorted(objects, key=lambda each: (each.kind == "wheels", _last_use(each)))
    total, removed = sum(each.size for each in oldest_first), []
    for each in oldest_first:
        is_due = _last_use(each) < before or (limit is not None and total > limit)
        if is_due and remove(each):
            total -= each.size
            removed.append(each)
    return removed


def _last_use(each: Prunable) -> float:
    """Return the time of the last use; a time by a wrong clock counts as long ago."""
    return each.used if math.isfinite(seconds_since(each.used)) else 0
