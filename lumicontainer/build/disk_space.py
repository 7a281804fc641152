"""How much room a build needs, from what the cache knows of its steps, and whether it is there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lumicontainer.build.cache.store import Cache, Entry, object_name
from lumicontainer.build.workspace import GIB, NEED_TREE
from lumicontainer.core.plan.plan import BASE, Plan
from lumicontainer.errors import Problem, SpaceError

_MIB = 1 << 20
_UNKNOWN = 200 * _MIB
"""Bytes of a layer that was never made here: PyTorch's has 300 MB, most have less than 50."""
_EXPANSION = 4
"""How many times its squashfs a tree takes (543 MB of pytorch-deepspeed unpack to 1.9 GB)."""
_SPARE = 64 * _MIB
_INODES = 50_000


@dataclass(frozen=True)
class Need:
    """Say what one place must have free: bytes, and inodes where it counts them."""

    what: str
    place: Path
    size: int
    inodes: int
    hint: str


@dataclass(frozen=True)
class Sizes:
    """Hold the bytes of a plan's layers: those that are there, and those to be made."""

    there: int = 0
    known: tuple[int, ...] = ()
    """Of layers to be made, of which an earlier form is there."""
    unknown: int = 0
    """How many layers are to be made of which nothing is known."""

    @property
    def missing(self) -> int:
        """Return the bytes of all layers that are to be made."""
        return sum(self.known) + self.unknown * _UNKNOWN

    def temporary(self, *, flat: bool, unpacked: bool) -> int:
        """Return the bytes of what lies about while layers are made or unpacked.

        That is the tree, unless it is there, and what the largest layer takes once more.
        """
        if not (flat or self.missing):
            return _SPARE
        tree = 0 if unpacked else _EXPANSION * self.there
        made = _EXPANSION * (self.missing + max(self.known, default=0))
        return tree + max(made, NEED_TREE if self.unknown else 0) + _SPARE


def sizes(plan: Plan, cache: Cache) -> Sizes:
    """Return how large a plan's layers are, or will be."""
    relatives = {entry.step: entry for entry in cache.entries() if entry.kind == "layer"}
    there, known, unknown = 0, [], 0
    for step, entry in _chain(plan, cache):
        if entry:
            there += entry.size
        elif step in relatives:
            known.append(relatives[step].size)
        else:
            unknown += 1
    return Sizes(there, tuple(known), unknown)


def _chain(plan: Plan, cache: Cache) -> Iterator[tuple[str, Entry | None]]:
    parent: str | None = ""
    for name, key in [(BASE, plan.base_key), *((step.name, step.key) for step in plan.steps)]:
        entry = cache.entry(object_name(key, parent)) if parent is not None else None
        parent = entry.tree if entry else None
        yield name, entry


def needs(
    found: Sizes, *, temporary: Path, cache: Path, output: Path, flat: bool, unpacked: bool
) -> list[Need]:
    """Return what each place of a build must have free; ``unpacked`` where its tree is there."""
    work = bool(found.known or found.unknown or flat)
    image = found.there + found.missing + _SPARE
    name = "name another place with"
    return [
        Need(
            "the build's files",
            temporary,
            found.temporary(flat=flat, unpacked=unpacked),
            _INODES if work else 100,
            f"{name} LUMICONTAINER_TMPDIR",
        ),
        Need("the cache", cache, found.missing + _SPARE, 100, f"{name} LUMICONTAINER_CACHE"),
        Need("the image", output.parent, image, 2, f"{name} --output"),
    ]


def require(wanted: list[Need]) -> None:
    """Raise ``SpaceError`` with every place that has too little free.

    Quotas count where the file system tells of them, as Lustre does of a project's.
    """
    problems = []
    for need in wanted:
        state = os.statvfs(need.place)
        free = state.f_bavail * state.f_frsize
        if free < need.size:
            why = f"it needs {_told(need.size)}, and {_told(free)} are free"
            problems.append(_problem(need, "room", why))
        if state.f_files and state.f_favail < need.inodes:
            why = f"it needs {need.inodes} inodes, and {state.f_favail} are free"
            problems.append(_problem(need, "room for files", why))
    if problems:
        raise SpaceError(*problems)


def _problem(need: Need, what: str, why: str) -> Problem:
    hint = f"make room, or {need.hint}"
    return Problem(f"there is too little {what} for {need.what}", str(need.place), why, hint)


def _told(size: int) -> str:
    return f"{size / GIB:.1f} GiB" if size >= GIB else f"{size / _MIB:.0f} MiB"
