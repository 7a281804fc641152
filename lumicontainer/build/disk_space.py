"""Estimate the disk space of a build from the cache, and require it before the build starts."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from lumicontainer.build.cache.store import Cache, object_name
from lumicontainer.build.workspace import NEED_TREE
from lumicontainer.core.plan.plan import BASE, Plan
from lumicontainer.errors import Problem, SpaceError
from lumicontainer.system import units

_MIB = 1 << 20
_UNKNOWN = 200 * _MIB
"""Bytes of a layer that was never built here: PyTorch's has 300 MB, most have less than 50."""
_EXPANSION = 4
"""The size of a tree relative to its squashfs (543 MB of pytorch-deepspeed unpack to 1.9 GB)."""
_SPARE = 64 * _MIB
_INODES = 50_000


class Need(NamedTuple):
    """Hold the free bytes and inodes that one folder needs."""

    what: str
    folder: Path
    size: int
    inodes: int
    option: str


class Sizes(NamedTuple):
    """Hold the bytes of a plan's layers: cached ones, and those to be built."""

    cached: int = 0
    known: tuple[int, ...] = ()
    """Sizes of earlier builds of layers to be built."""
    unknown: int = 0
    """The number of layers to be built that were never built here."""

    @property
    def missing(self) -> int:
        """Return the bytes of all layers to be built."""
        return sum(self.known) + self.unknown * _UNKNOWN

    def temporary(self, *, flat: bool, unpacked: bool) -> int:
        """Return the bytes of the tree, unless it is unpacked, and of the largest step."""
        if not (flat or self.missing):
            return _SPARE
        tree = 0 if unpacked else _EXPANSION * self.cached
        built = _EXPANSION * (self.missing + max(self.known, default=0))
        return tree + max(built, NEED_TREE if self.unknown else 0) + _SPARE


def sizes(plan: Plan, cache: Cache) -> Sizes:
    """Return the sizes of a plan's layers."""
    earlier = {entry.step: entry.size for entry in cache.entries() if entry.kind == "layer"}
    cached, known, unknown = 0, [], 0
    parent: str | None = ""
    for name, key in [(BASE, plan.base_key), *((step.name, step.key) for step in plan.steps)]:
        entry = cache.entry(object_name(key, parent)) if parent is not None else None
        parent = entry.tree if entry else None
        if entry:
            cached += entry.size
        elif name in earlier:
            known.append(earlier[name])
        else:
            unknown += 1
    return Sizes(cached, tuple(known), unknown)


def needs(
    found: Sizes, *, temporary: Path, cache: Path, output: Path, flat: bool, unpacked: bool
) -> list[Need]:
    """Return what each folder of a build needs; ``unpacked`` if the tree of the layers exists."""
    inodes = _INODES if found.known or found.unknown or flat else 100
    work, image = found.temporary(flat=flat, unpacked=unpacked), found.cached + found.missing
    return [
        Need("the build's files", temporary, work, inodes, "LUMICONTAINER_TMPDIR"),
        Need("the cache", cache, found.missing + _SPARE, 100, "LUMICONTAINER_CACHE"),
        Need("the image", output.parent, image + _SPARE, 2, "--output"),
    ]


def require(wanted: Sequence[Need]) -> None:
    """Raise ``SpaceError`` with every folder that has too little free space.

    Quotas count if the file system reports them, as Lustre does for a project.
    """
    problems = []
    for need in wanted:
        state = os.statvfs(need.folder)
        free = state.f_bavail * state.f_frsize
        hint = f"free some space, or name another place with {need.option}"
        what = f"not enough space for {need.what}"
        if free < need.size:
            why = f"it needs {units.size(need.size)}, and {units.size(free)} are free"
            problems.append(Problem(what, str(need.folder), why, hint))
        if state.f_files and state.f_favail < need.inodes:
            why = f"it needs {need.inodes} inodes, and {state.f_favail} are free"
            problems.append(Problem(what, str(need.folder), why, hint))
    if problems:
        raise SpaceError(*problems)
