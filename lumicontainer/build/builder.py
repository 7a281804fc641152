"""The values of a build, and of one run of a step's program."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from lumicontainer.build.cache import store as cache
from lumicontainer.build.cache.store import Entry
from lumicontainer.build.workspace import Workspace
from lumicontainer.core.plan.plan import Plan
from lumicontainer.engines import Engine
from lumicontainer.errors import InputError, Problem
from lumicontainer.host.site import Site
from lumicontainer.system.terminal.progress import Progress, Task

_SILENCE = 30.0
"""Minutes; the compiler of DeepSpeed's largest source is silent for some of them."""
STAGED = ".lumicontainer"
"""The folder in /tmp of a step with the files that the host passes in."""

Stack: TypeAlias = "tuple[Entry, ...]"
"""Layers, the lowest first."""


def silence_limit() -> float | None:
    """Return the seconds without output after which a step is ended; None for no limit.

    Raises ``InputError`` if LUMICONTAINER_SILENCE is not a number of minutes.
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
    """Hold the values of a build."""

    plan: Plan
    engine: Engine
    site_of: Callable[[], Site]
    """Return the settings of the host; reading pip's configuration takes 0.4 s."""
    progress: Progress
    cache: cache.Cache
    place: Workspace
    jobs: int
    fresh: bool = False
    secrets: Mapping[str, Path] = field(default_factory=dict)
    proven: dict[str, Entry] = field(default_factory=dict)
    """The cached objects whose bytes this build has verified, by name."""
    silence: float | None = field(default_factory=silence_limit)
    began: float = field(default_factory=time.time)
    """In seconds since 1970."""

    def cached(self) -> Stack:
        """Return the cached layers from the base up; their bytes are not verified."""
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
        """Return the settings of the host that the build uses."""
        return self.site_of()


@dataclass
class StepRun:
    """Hold what one run of a step's program works with."""

    builder: Builder
    name: str
    below: Stack
    task: Task
    apart: bool = False
    """Discard the changes: run in an overlay, or in a tree of its own."""
    secret_names: Sequence[str] = ()
    output: Path | None = None

    @property
    def root(self) -> Path:
        """Return the folder of the run."""
        # The prefix keeps the name of a layer apart from other names in the workspace.
        return self.builder.place.root / f"step-{self.name.replace(': ', '.')}"

    @property
    def temporary(self) -> Path:
        """Return the folder that is /tmp in the container."""
        return self.root / "tmp"

    @property
    def staged(self) -> Path:
        """Return the folder of the files that the host passes in."""
        return self.temporary / STAGED

    @property
    def wheels(self) -> Path:
        """Return the folder of the wheels that the program gets or leaves."""
        return self.staged / "wheels"

    @property
    def sandbox(self) -> Path:
        """Return the folder that has the tree and its state."""
        return self.root / "sandbox" if self.apart else self.builder.place.sandbox

    def binds(self) -> dict[Path, str]:
        """Return the host paths that the program sees, with their container paths."""
        folders = {folder: str(folder) for folder in self.builder.site.folders}
        names = self.secret_names
        return folders | {
            self.builder.secrets[name]: f"/tmp/{STAGED}/secrets/{name}" for name in names
        }
