"""Estimate the disk space of a build from the cache, and require it before the build starts."""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from lumicontainer.cache.explain import stack_of
from lumicontainer.cache.store import Cache
from lumicontainer.core.plan.steps import BASE, Plan
from lumicontainer.errors import Problem, SpaceError
from lumicontainer.host.machine import free_memory
from lumicontainer.inside.node.hardware import Node
from lumicontainer.inside.rank.caches import OFF_THE_NODE, file_system
from lumicontainer.sandbox.workspace import NEED_TREE
from lumicontainer.system import units
from lumicontainer.system.os_errors import refused

_MIB = 1 << 20
_UNKNOWN = 200 * _MIB
"""Bytes of a layer that was never built here and expects nothing: most have less than 50 MB."""
_EXPANSION = 4
"""The size of a tree relative to its squashfs (543 MB of pytorch-deepspeed unpack to 1.9 GB)."""
_IN_PLACE = _EXPANSION * _MIB
"""The unpacked bytes of the layer of a base that is an image file."""
_SPARE = 64 * _MIB
_BLOCK = 4096
_INODES = 50_000
_IN_MEMORY = ("tmpfs", "ramfs")


class Need(NamedTuple):
    """Hold the free bytes and inodes that one folder needs."""

    what: str
    folder: Path
    size: int
    inodes: int
    option: str


class Sizes(NamedTuple):
    """Hold the packed bytes of a plan's layers: cached ones, and those to be built."""

    cached: int = 0
    known: tuple[int, ...] = ()
    """Sizes of the last builds of layers to be built."""
    expected: tuple[int, ...] = ()
    """Estimates for the layers to be built that were never built here."""
    image: int = 0
    """The size of the image file that is the base."""

    @property
    def missing(self) -> int:
        """Return the bytes of all layers to be built."""
        return sum(self.known) + sum(self.expected)

    def temporary(self, *, unpacks: bool, unpacked: bool) -> int:
        """Return the bytes of the tree, unless it is unpacked, and of the largest step.

        ``unpacks`` says that a build without steps unpacks it too.
        """
        if not (unpacks or self.missing):
            return _SPARE
        tree = 0 if unpacked else _EXPANSION * (self.cached + self.image)
        built = _EXPANSION * (self.missing + max(self.known + self.expected, default=0))
        return tree + max(built, NEED_TREE if self.expected else 0) + _SPARE


def sizes(plan: Plan, cache: Cache) -> Sizes:
    """Return the sizes of a plan's layers."""
    built = sorted(cache.entries(), key=lambda entry: entry.used)
    earlier = {entry.step: entry.size for entry in built if entry.kind == "layer"}
    first, *others = plan.resolved.included()
    unpacked = {layer.name: layer.content.expects.size for layer in others}
    unpacked[BASE] = first.content.expects.size
    cached = [entry.size for entry in stack_of(plan, cache.entry)]
    if plan.bootstrap.file:
        unpacked[BASE] = _IN_PLACE
    missing = [BASE, *(step.name for step in plan.steps)][len(cached) :]
    known = (earlier[name] for name in missing if name in earlier)
    new = (unpacked.get(name, 0) // _EXPANSION for name in missing if name not in earlier)
    file = Path(plan.bootstrap.file) if plan.bootstrap.file else None
    image = file.stat().st_size if file and file.is_file() else 0
    return Sizes(sum(cached), tuple(known), tuple(size or _UNKNOWN for size in new), image)


def work(sizes: Sizes, folder: Path, *, unpacks: bool, unpacked: bool) -> Need:
    """Return what a build's own files need; ``unpacked`` if the tree of the layers exists."""
    inodes = _INODES if sizes.known or sizes.expected or unpacks else 100
    size = sizes.temporary(unpacks=unpacks, unpacked=unpacked)
    return Need("the build's files", folder, size, inodes, "LUMICONTAINER_TMPDIR")


def to_convert(sizes: Sizes, cache: Cache, compression: str) -> int:
    """Return about how many bytes of layers the cache has to get in another compression."""
    if compression == "zstd":
        return 0
    converted = sum(each.size for each in cache.entries() if each.kind == compression)
    return max(0, sizes.cached + sizes.missing - converted)


def results(sizes: Sizes, cache: Path, output: Path, converted: int = 0) -> list[Need]:
    """Return what the folders of a build's results need.

    ``converted`` are the bytes of layers in another compression, which the cache gets too.
    """
    size = sizes.image + sizes.cached + sizes.missing + _SPARE
    image = Need("the image", output.parent, size, 2, "--output")
    return [cache_need(cache, sizes.missing + converted), image]


def cache_need(root: Path, size: int) -> Need:
    """Return what a cache needs to get objects of ``size`` bytes."""
    return Need("the cache", root, size + _SPARE, 100, "LUMICONTAINER_CACHE")


def shared_warning(temporary: Path, node: Node | None = None) -> Problem | None:
    """Return the warning about a temporary folder on a file system that nodes share."""
    kind = file_system(str(temporary), node or Node())
    if kind.partition(".")[0] not in OFF_THE_NODE:
        return None
    what = "the temporary folder is on a file system that nodes share"
    why = f"a build unpacks up to 100,000 files there, which takes long on {kind}"
    hint = "export LUMICONTAINER_TMPDIR=/tmp, or another folder of the node"
    return Problem(what, str(temporary), why, hint, level="warning")


def require(places: Sequence[Need]) -> None:
    """Raise ``SpaceError`` with every file system that has too little free space.

    Quotas count if the file system reports them, as Lustre does for a project. A quota that is used
    up is found by writing a file.
    """
    together: dict[tuple[int, ...], list[Need]] = {}
    for need in places:
        # With Lustre's project quotas, folders of one file system differ in their size.
        place = (need.folder.stat().st_dev, os.statvfs(need.folder).f_blocks)
        together.setdefault(place, []).append(need)
    if problems := [problem for needs in together.values() for problem in _problems(needs)]:
        raise SpaceError(*problems)


def _problems(needs: Sequence[Need]) -> list[Problem]:
    """Return the problems of places that share their free space."""
    total = _total(needs)
    one, what = len(needs) == 1, f"not enough space for {total.what}"
    other = f"name {'another place' if one else 'other places'} with {total.option}"
    needed = "it needs {}" if one else "they need {} together"
    state, hint = os.statvfs(total.folder), f"free some space, or {other}"
    free, size, reasons = state.f_bavail * state.f_frsize, needed.format(units.size(total.size)), []
    if free < total.size:
        reasons.append(f"{size}, and {units.size(free)} are free")
    elif file_system(str(total.folder), Node()) in _IN_MEMORY and free_memory() < total.size:
        memory = f"{units.size(free_memory())} of memory are free"
        reasons.append(f"it is in memory: {size}, and {memory}")
        hint = f"{other}, or give the job more memory: --mem, or SBATCH_MEM_PER_NODE"
    if state.f_files and state.f_favail < total.inodes:
        inodes = needed.format(f"{total.inodes} inodes")
        reasons.append(f"{inodes}, and {state.f_favail} are free")
    where = "\n".join(str(need.folder) for need in needs)
    problems = [Problem(what, where, why, hint) for why in reasons]
    return problems or [problem for need in needs for problem in _unwritable(need)]


def _total(needs: Sequence[Need]) -> Need:
    what = _listed([need.what for need in needs], "and")
    option = _listed([need.option for need in needs], "or")
    size, inodes = sum(need.size for need in needs), sum(need.inodes for need in needs)
    return Need(what, needs[0].folder, size, inodes, option)


def _listed(words: Sequence[str], last: str) -> str:
    *others, final = words
    return f"{', '.join(others)} {last} {final}" if others else final


def _unwritable(need: Need) -> list[Problem]:
    what, hint = f"not enough space for {need.what}", f"name another place with {need.option}"
    try:
        with tempfile.TemporaryFile(dir=need.folder) as file:
            file.write(bytes(_BLOCK))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        refusal = refused(error, what, str(need.folder), hint)
        if not isinstance(refusal, SpaceError):
            raise
        return list(refusal.problems)
    return []
