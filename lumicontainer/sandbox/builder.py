"""The values of a build."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import TypeAlias

from lumicontainer.cache.explain import stack_of
from lumicontainer.cache.objects import Entry
from lumicontainer.cache.shared.source import LayerSource
from lumicontainer.cache.store import Cache
from lumicontainer.core.plan.steps import Plan
from lumicontainer.host.machine import free_memory
from lumicontainer.host.site import Site
from lumicontainer.image.assembly.assemble import Source
from lumicontainer.image.base_image import require_unchanged
from lumicontainer.jobs.builds import CompileJobs
from lumicontainer.sandbox.runtimes.runtime import Runtime
from lumicontainer.sandbox.workspace import Workspace
from lumicontainer.system import flock
from lumicontainer.system.files.regular import FileState
from lumicontainer.system.programs.patience import Patience
from lumicontainer.system.terminal.progress import Progress
from lumicontainer.system.waiting import POLL

Stack: TypeAlias = "tuple[Entry, ...]"
"""Layers, the lowest first."""


@dataclass
class BaseImage:
    """Hold the place of a base's data that its layer does not have."""

    source: Source
    read_index: Callable[[], Awaitable[Path]]
    """Returns the folder of their index, from the cache or read now; a tree is made by it."""
    state: FileState | None = None
    """The state of the image file when it was verified; None for one in the cache."""
    starts: bool | None = None
    """Whether an engine of this user starts it; None before it was tried."""

    def require_unchanged(self) -> None:
        """Raise ``DownloadError`` if the image file was changed since."""
        if self.state:
            require_unchanged(self.source.path, self.state)


@dataclass(frozen=True)
class Builder:
    """Hold the values of a build."""

    plan: Plan
    runtime: Runtime
    site_of: Callable[[], Site]
    """Return the settings of the host; reading pip's configuration takes 0.4 s."""
    progress: Progress
    cache: Cache
    place: Workspace
    patience: Patience
    """Limits each step."""
    began: float
    """The start of the build, in seconds since 1970."""
    jobs: int | None = None
    """The compile jobs of a step that the user asked for."""
    fresh: bool = False
    build_date: str = ""
    """The date that the labels of the image name; empty for none."""
    secrets: Mapping[str, Path] = field(default_factory=dict)
    proven: dict[str, Entry] = field(default_factory=dict)
    """The cached objects whose bytes this build has verified, by name."""
    images: dict[str, BaseImage] = field(default_factory=dict)
    """By the name of the layer of a base: the data of its image file, which this build verified."""
    verified: dict[Path, FileState] = field(default_factory=dict)
    """The image files whose sha256 this build has computed, with their state then."""
    shared: Sequence[LayerSource] = ()
    """The caches of others, the first one first."""
    refused: set[tuple[LayerSource, str]] = field(default_factory=set)
    """The objects that cannot be taken from each of these, and the reasons that were shown."""
    compile_jobs: CompileJobs | None = None
    """Compiles layers in Slurm jobs; None to compile them here."""
    job: Path | None = None
    """The folder of the Slurm job that runs this build, if one does."""

    def jobs_of(self, memory_per_job: int) -> int:
        """Return the compile jobs of a step: as many as cores and free memory allow."""
        cores = len(os.sched_getaffinity(0))
        return self.jobs or max(1, min(cores, free_memory() // memory_per_job))

    def cached(self) -> Stack:
        """Return the cached layers from the base up; their bytes are not verified."""
        return tuple(stack_of(self.plan, self.cache.entry))

    def intact(self) -> Stack:
        """Return the cached layers from the base up whose bytes this build has verified."""
        return tuple(takewhile(lambda entry: entry.name in self.proven, self.cached()))

    async def use(self, name: str) -> int:
        """Lock an object against pruning until the build ends; return the lock's descriptor."""
        while (held := flock.shared(self.cache.use_lock(name))) is None:
            await asyncio.sleep(POLL)
        self.place.locks.append(held)
        return held

    def release(self, held: int) -> None:
        """Release the lock of an object that is not used."""
        self.place.locks.remove(held)
        os.close(held)

    @property
    def site(self) -> Site:
        """Return the settings of the host that the build uses."""
        return self.site_of()
