"""Find the packages that others need in an image, by the markers of its Python (PEP 508)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

from packaging.requirements import InvalidRequirement, Requirement

from lumicontainer.core.resolve.facts import normal
from lumicontainer.pinning.wheels import Wheel


def needed(
    requirements: Iterable[str], found: Mapping[str, Wheel], environment: Mapping[str, str]
) -> dict[str, str]:
    """Return a requirement, without its marker, for each package that requirements need.

    The keys are names of packages. ``found`` are the packages whose needs are known.
    """
    needs: dict[str, str] = {}
    seen: set[tuple[str, str]] = set()
    left = list(_read(requirements))
    while left:
        requirement = left.pop()
        requirement.marker = None
        name = normal(requirement.name)
        needs.setdefault(name, str(requirement))
        for extra in {"", *requirement.extras} if name in found else ():
            if (name, extra) in seen:
                continue
            seen.add((name, extra))
            left += [
                each
                for each in _read(found[name].needs)
                if each.marker is None or each.marker.evaluate({**environment, "extra": extra})
            ]
    return needs


def _read(requirements: Iterable[str]) -> Iterator[Requirement]:
    for each in requirements:
        with suppress(InvalidRequirement):  # Pip reports it.
            yield Requirement(each)
