"""The cache of the current user: list, verify, prune and explain its objects."""

import contextlib
import itertools
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from lumicontainer.api.recipes import RecipeRequest
from lumicontainer.api.values import OnProgress, progress_of
from lumicontainer.building.layers.exchange import find_caches
from lumicontainer.cache import explain, written
from lumicontainer.cache.downloads import Download, downloads, remove_partial
from lumicontainer.cache.explain import InputChange, Needed
from lumicontainer.cache.objects import Entry, object_name
from lumicontainer.cache.shared.shared import SharedCache
from lumicontainer.cache.shared.source import find_offered
from lumicontainer.cache.store import Cache
from lumicontainer.cache.usage import size_limit, uses
from lumicontainer.core.plan.plan import planned
from lumicontainer.errors import HostError, InputError, Problem
from lumicontainer.jobs import folders
from lumicontainer.system.connections import Connections
from lumicontainer.system.files import no_links
from lumicontainer.system.files.user_cache import cache_root

MARK_LIFE = 90 * 86_400
"""Seconds after which the mark of a passed check is removed; the check then runs once more."""
_DAY = 86_400
CacheRow: TypeAlias = Mapping[str, Any]
"""An object as ``lumicontainer cache --json`` prints it."""


class CacheContent(NamedTuple):
    """Hold the objects, the most recently used first, and what the cache may take."""

    place: Path
    bytes: int
    limit: int
    damaged: int
    """The number of damaged objects that were moved aside."""
    unreadable: int
    downloads: int
    """The bytes of files of packages; ``bytes`` has them too."""
    objects: Sequence[CacheRow]

    def as_data(self) -> dict[str, Any]:
        """Return it as ``lumicontainer cache list --json`` prints it."""
        return {**self._asdict(), "place": str(self.place)}


class Examination(NamedTuple):
    """Hold the number of whole objects, and the others with the reason."""

    place: Path
    whole: int = 0
    damaged: Sequence[CacheRow] = ()
    unreadable: Sequence[CacheRow] = ()

    def folder(self, name: str) -> Path:
        """Return the folder of an object of the user's own cache."""
        return Cache(self.place).folder(name)

    @property
    def failed(self) -> bool:
        """Return whether an object is damaged or cannot be read."""
        return bool(self.damaged or self.unreadable)

    def as_data(self) -> dict[str, Any]:
        """Return it as ``lumicontainer cache verify --json`` prints it."""
        return {**self._asdict(), "place": str(self.place)}


@dataclass(frozen=True)
class PruneRequest:
    """Say what is removed from a cache."""

    max_size: int | None = None
    """The bytes to keep; by default the limit of the cache, and no limit of a shared one."""
    max_age: int | None = None
    """Days after which what was not used, or published, is removed."""
    dry_run: bool = False
    others: bool = False
    """Of a shared cache, whether what others published is removed too."""

    def oldest(self) -> float:
        """Return the time before which objects are removed; 0 if none are for their age."""
        return time.time() - self.max_age * _DAY if self.max_age is not None else 0


class Pruned(NamedTuple):
    """Hold what was removed, or would be, and the bytes of it and of the rest."""

    place: Path
    removed: Sequence[CacheRow]
    bytes: int
    left: int
    limit: int | None
    dry_run: bool
    leftovers: Mapping[str, int] = {}
    """The number of other things that were removed, by kind."""
    problems: Sequence[Problem] = ()
    """Why objects could not be removed."""

    def as_data(self) -> dict[str, Any]:
        """Return it as ``lumicontainer cache prune --json`` prints it."""
        names = ("removed", "bytes", "left", "limit", "dry_run", "leftovers")
        return {"place": str(self.place), **{name: getattr(self, name) for name in names}}

    def free(self) -> int | None:
        """Return the free bytes of the disk; None if there is no cache."""
        return shutil.disk_usage(self.place).free if self.place.is_dir() else None


class Explanation(NamedTuple):
    """Hold which steps of a recipe are cached, and why the first of the others is not."""

    recipe: str
    parts: Sequence[Needed]
    missing: Needed | None
    nearest: Entry | None
    differences: Sequence[InputChange]
    doubt: Problem | None
    """Why an object of the shared cache is not taken."""

    def as_data(self) -> dict[str, Any]:
        """Return it as ``lumicontainer cache explain --json`` prints it."""
        changes = self.differences
        return {
            "recipe": self.recipe,
            "parts": [_part_data(part) for part in self.parts],
            "missing": self.missing and self.missing.name,
            "nearest": self.nearest and self.nearest.name,
            "differences": [{"input": d.name, "before": d.before, "now": d.now} for d in changes],
            "not_taken": self.doubt and self.doubt.why,
        }


def _part_data(part: Needed) -> dict[str, str]:
    data = {"name": part.name, "key": part.key, "state": part.state}
    return {**data, "publisher": part.publisher} if part.publisher else data


def about(entry: Entry) -> dict[str, Any]:
    """Return an object as a row."""
    return {"name": entry.name, "step": entry.step, "kind": entry.kind, "bytes": entry.size}


def total(rows: Iterable[CacheRow]) -> int:
    """Return the bytes of rows."""
    return sum(each["bytes"] for each in rows)


def list_cache() -> CacheContent:
    """Return the objects of the cache, with the images that use them."""
    store = Cache(cache_root())
    images: dict[str, list[str]] = {}
    for use in uses(store):
        if use.counts():
            for name in use.objects:
                images.setdefault(name, []).append(use.image)
    entries = _latest_first(store)
    rows = [
        {**about(entry), "used": int(entry.used), "images": images.get(entry.name, [])}
        for entry in entries
    ]
    limit, damaged = size_limit(store, entries), len(store.damaged())
    size, unreadable = sum(each.size for each in downloads(store.root)), len(_unreadable(store))
    return CacheContent(store.root, total(rows) + size, limit, damaged, unreadable, size, rows)


def _latest_first(store: Cache) -> list[Entry]:
    return sorted(store.entries(), key=lambda entry: entry.used, reverse=True)


def _unreadable(store: Cache) -> list[str]:
    return [name for name in store.names() if store.entry(name) is None]


def verify_cache(on_progress: OnProgress | None = None) -> Examination:
    """Read every byte of the cache, and move damaged objects aside."""
    store = Cache(cache_root())
    if not (names := store.names()):
        return Examination(store.root)
    store.open()
    whole, damaged, unreadable = 0, [], []
    with progress_of(on_progress) as progress:
        progress.expect(len(names))
        for name in names:
            entry = store.entry(name)
            shown = entry.shown if entry else name[:12]
            try:
                with progress.step(shown):
                    reason = store.examine(name)
            except FileNotFoundError:
                continue  # Another process removed it.
            except HostError as error:
                why = error.problems[0].why
                unreadable.append({"name": name, "step": shown, "why": why})
                continue
            if reason:
                damaged.append({"name": name, "step": shown, "why": reason})
            whole += not reason
    return Examination(store.root, whole, damaged, unreadable)


def prune_cache(request: PruneRequest) -> Pruned:
    """Remove the least recently used objects, and what serves nobody."""
    if request.others:
        raise InputError(Problem("--others is an option of --shared", hint="leave it out"))
    store, dry = Cache(cache_root()), request.dry_run
    entries = _latest_first(store)
    limit = size_limit(store, entries) if request.max_size is None else request.max_size
    rows = [about(entry) for entry in entries]
    whole = total(rows) + sum(each.size for each in downloads(store.root))
    gone: dict[str, Entry | Download] = {}
    leftovers: Mapping[str, int] = {}
    if store.root.is_dir():
        store.open()
        if not dry:
            _set_aside(store)
        gone = {each.name: each for each in store.prune(limit, before=request.oldest(), dry=dry)}
        leftovers = _remove_leftovers(store, dry=dry)
    files = sum(isinstance(each, Download) for each in gone.values())
    leftovers = {**({"files of packages": files} if files else {}), **leftovers}
    removed = [row for row in rows if row["name"] in gone]
    size = sum(each.size for each in gone.values())
    return Pruned(store.root, removed, size, whole - size, limit, dry, leftovers)


def _set_aside(store: Cache) -> None:
    store.reclaim()
    remove_partial(store.root)
    folders.reclaim(store.root / folders.FOLDERS)
    for name in _unreadable(store):
        with contextlib.suppress(FileNotFoundError, HostError):
            store.examine(name)


def _remove_leftovers(store: Cache, *, dry: bool) -> dict[str, int]:
    """Remove what serves nobody unless ``dry`` is set; return the number of each kind."""
    leftovers = _leftovers(store)
    for path in () if dry else itertools.chain(*leftovers.values()):
        with contextlib.suppress(FileNotFoundError):  # Another prune may remove the same.
            no_links.remove(path)
    unreadable = [name for name in _unreadable(store) if store.remove(name, dry=dry)]
    numbers = {what: len(paths) for what, paths in leftovers.items()}
    numbers["objects that cannot be read"] = len(unreadable)
    return {what: number for what, number in numbers.items() if number}


def _leftovers(store: Cache) -> dict[str, Sequence[Path]]:
    oldest = time.time() - MARK_LIFE
    marks = []
    for path in written.files(store.root / "held"):
        with contextlib.suppress(FileNotFoundError):
            marks += [path] if path.stat().st_mtime < oldest else []
    return {
        "damaged objects": store.damaged(),
        "notes of images that are gone": [use.note for use in uses(store) if not use.counts()],
        "old marks of checks": marks,
    }


def explain_cache(request: RecipeRequest, registries: Sequence[str] = ()) -> Explanation:
    """Return which steps of a recipe are cached, and why the first of the others is not.

    ``registries`` are caches such as ``oci://registry.example.org/project/layers``.
    """
    plan = planned(request.resolve())
    entries, shared = _latest_first(Cache(cache_root())), SharedCache.named()
    with Connections() as connections:
        sources = tuple(find_caches(registries, connections))
        for source in sources:
            source.require()
        entries = [*(shared.entries() if shared else ()), *entries]
        parts = explain.walk(plan, entries, lambda name: find_offered(name, sources))
        first = next((part for part in parts if part.state == explain.MISSING), None)
        doubt = None
        if first:
            name = object_name(first.key, first.below or "")
            doubts = (source.doubt(name, first.name) for source in sources)
            doubt = next(filter(None, doubts), None)
    nearest = explain.closest(first, entries) if first else None
    changes = explain.changes(first, nearest) if first and nearest else []
    return Explanation(plan.resolved.recipe.name, parts, first, nearest, changes, doubt)
