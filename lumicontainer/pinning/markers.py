"""Find what Python packages need in an image, whose Python is another than that which asks."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from packaging.requirements import InvalidRequirement, Requirement

from lumicontainer.core.resolve.facts import normal


class Needing(Protocol):
    """What needs others."""

    @property
    def needs(self) -> Sequence[str]:
        """Return its requirements, with their markers."""


def needed(
    requirements: Iterable[str], found: Mapping[str, Needing], python: str
) -> dict[str, str]:
    """Return what requirements need of ``found``, and lack in it, without their markers (PEP 508).

    The keys are the names of packages, each with a requirement of it; of what is not in ``found``
    nothing more is known.
    """
    environment = _environment(python)
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
            seen_by_markers = {**environment, "extra": extra}
            left += [each for each in _read(found[name].needs) if _holds(each, seen_by_markers)]
    return needs


def _read(requirements: Iterable[str]) -> Iterator[Requirement]:
    for each in requirements:
        with suppress(InvalidRequirement):  # Pip says what is wrong with it.
            yield Requirement(each)


def _holds(requirement: Requirement, environment: dict[str, str]) -> bool:
    return requirement.marker is None or requirement.marker.evaluate(environment)


def _environment(python: str) -> dict[str, str]:
    """Return what markers see of an image's Python that this process's own would tell otherwise.

    Images are made for the kind of machine that makes them.
    """
    if python == f"{sys.version_info.major}.{sys.version_info.minor}":
        return {}
    full = f"{python}.0"
    return {
        "python_version": python,
        "python_full_version": full,
        "implementation_version": full,
    }
