"""What a build works with, and what a run of one of its steps offers to others."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeAlias

from lumicontainer.build.cache import store as cache
from lumicontainer.build.cache.store import Entry
from lumicontainer.build.workspace import Workspace
from lumicontainer.core.plan.plan import Plan
from lumicontainer.engines import Engine
from lumicontainer.errors import InputError, Problem
from lumicontainer.host.site import Site
from lumicontainer.system.terminal.progress import Progress

_SILENCE = 30.0
"""Minutes; the compiler of DeepSpeed's largest source prints nothing for some of them."""
STAGED = ".lumicontainer"
"""The folder in /tmp of a step that holds what the host hands in."""

Stack: TypeAlias = "tuple[Entry, ...]"
"""Layers, the lowest first."""


def silence_limit() -> float | None:
    """Return the seconds without output after which a step is ended; None where it never is.

    Raises ``InputError`` where LUMICONTAINER_SILENCE is no number of minutes.
    """
    named = os.environ.get("LUMICONTAINER_SILENCE", "")
    try:
        minutes = float(named) if named else _SILENCE
    except ValueError:
        minutes = math.nan
    if not 0 <= minutes < math.inf:
        what = f"invalid LUMICONTAINER_SILENCE {named!a}: expected a number of minutes"
        raise InputError(Problem(what, hint="export LUMICONTAINER_SILENCE=60, or 0 for no limit"))
    return minutes * 60 or None


@dataclass(frozen=True)
class Builder:
    """Hold what a build works with."""

    plan: Plan
    engine: Engine
    site_of: Callable[[], Site]
    """Returns what the build borrows from its host; reading pip's configuration takes 0.4 s."""
    progress: Progress
    cache: cache.Cache
    place: Workspace
    jobs: int
    fresh: bool = False
    """Make every object anew, although the cache has it."""
    secrets: Mapping[str, Path] = field(default_factory=dict)
    proven: dict[str, Entry] = field(default_factory=dict)
    """The objects of the cache that this build has proven, by name."""
    silence: float | None = field(default_factory=silence_limit)
    """Seconds without output after which a step is ended."""
    began: float = field(default_factory=time.time)
    """In seconds since 1970."""

    def cached(self) -> Stack:
        """Return the layers that the cache has from the base up; nothing is proven here."""
        found: list[Entry] = []
        for key in (self.plan.base_key, *(step.key for step in self.plan.steps)):
            parent = found[-1].tree if found else ""
            entry = self.cache.entry(cache.object_name(key, parent))
            if entry is None:
                break
            found.append(entry)
        return tuple(found)

    @property
    def site(self) -> Site:
        """Return what the build borrows from its host."""
        return self.site_of()


class Ground(Protocol):
    """Run programs upon layers."""

    async def prepare(self) -> None:
        """Make what a program runs upon."""

    def command(self, inside: Sequence[str]) -> list[str]:
        """Return the engine's command that runs ``inside``."""


class StepRun(Protocol):
    """Describe the run of one step: the layers below it, and its folders on the host."""

    builder: Builder
    name: str
    below: Stack
    root: Path
    temporary: Path
    staged: Path
    output: Path | None
    ground: Ground

    def binds(self) -> dict[Path, str]:
        """Return what of the host the program sees, and where."""

    async def module(self, name: str, *words: str, given: bytes = b"") -> None:
        """Run a module of this package as root of a namespace with the build's ids."""
