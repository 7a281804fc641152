"""The cache of the current user: list, verify, prune and explain its objects."""

import contextlib
import itertools
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from lumicontainer.api.recipes import RecipeRequest
from lumicontainer.api.values import OnProgress, progress_of
from lumicontainer.building.layers.exchange import find_caches
from lumicontainer.cache import explain, written
from lumicontainer.cache.downloads import Download, downloads, remove_partial
from lumicontainer.cache.explain import InputChange, Needed
from lumicontainer.cache.objects import Entry, object_name, step_name
from lumicontainer.cache.shared.shared import SharedCache
from lumicontainer.cache.shared.source import find_offered
from lumicontainer.cache.store import UNREADABLE, Cache
from lumicontainer.cache.usage import size_limit, uses
from lumicontainer.core.plan.plan import planned
from lumicontainer.errors import HostError, InputError, Problem
from lumicontainer.jobs import folders
from lumicontainer.system import units
from lumicontainer.system.connections import Connections
from lumicontainer.system.files import no_links
from lumicontainer.system.files.user_cache import cache_root
from lumicontainer.system.terminal.text import TextPart, TextTable

MARK_LIFE = 90 * 86_400
"""Seconds after which the mark of a passed check is removed; the check then runs once more."""
_DAY = 86_400
CacheRow: TypeAlias = Mapping[str, Any]
"""An object as ``lumicontainer cache --json`` prints it."""


def object_table(
    rows: Sequence[CacheRow], when: str, label: str, last: Callable[[CacheRow], str]
) -> TextTable:
    """Return objects as a table; ``when`` is a time of each, and ``last`` its last column."""
    table = [("step", "kind", "size", when, label)] if rows else []
    for each in rows:
        ago = units.age(time.time() - each[when])
        table.append((each["step"], each["kind"], units.size(each["bytes"]), ago, last(each)))
    return TextTable(table)


def _images(row: CacheRow) -> str:
    first, more = "".join(row["images"][:1]), len(row["images"]) - 1
    return f"{first} and {more} more" if more > 0 else first


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

    def as_text(self) -> Iterator[TextPart]:
        """Yield it as ``lumicontainer cache list`` prints it."""
        yield object_table(self.objects, "used", "images", _images)
        size = f"{units.size(self.bytes)} of at most {units.size(self.limit)}"
        objects = units.count(len(self.objects), "object")
        if self.downloads:
            objects += f" and {units.size(self.downloads)} of packages for extensions"
        yield f"{objects}, {size}, in {self.place}"
        if self.damaged:
            yield f"{units.count(self.damaged, 'damaged object')} moved aside"
            yield "    hint: lumicontainer cache prune"
        if self.unreadable:
            yield f"{units.count(self.unreadable, 'object')} cannot be read"
            yield "    hint: lumicontainer cache verify"


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

    def as_text(self) -> Iterator[TextPart]:
        """Yield it as ``lumicontainer cache verify`` prints it."""
        for each in self.damaged:
            yield f"damaged: {each['step']}: {each['why']}"
            if publisher := each.get("publisher"):
                place = self.place / each["name"]
                yield f"  where: {place}"
                hint = f"{publisher} removes it by rm -r {place}, and publishes it once more"
                yield f"   hint: {hint}"
        for each in self.unreadable:
            yield f"cannot be read: {each['step']}: {each['why']}"
            yield f"  where: {self.folder(each['name'])}"
        yield f"{units.count(self.whole, 'object')} whole, in {self.place}"
        if any("publisher" not in each for each in self.damaged):
            bad = self.place / "bad"
            yield f"damaged objects were moved to {bad}: the next build makes them again"
            yield "    hint: lumicontainer cache prune removes them; check the disk if it recurs"
        if self.unreadable:
            yield "objects that cannot be read stay"
            yield f"    hint: {UNREADABLE}"


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
    stays: str
    """Why more can stay than the limit."""
    leftovers: Mapping[str, int] = {}
    """The number of other things that were removed, by kind."""
    problems: Sequence[Problem] = ()
    """Why objects could not be removed."""
    free: int | None = None
    """The free bytes of the disk after objects of the user's own cache were removed."""

    def as_data(self) -> dict[str, Any]:
        """Return it as ``lumicontainer cache prune --json`` prints it."""
        names = ("removed", "bytes", "left", "limit", "dry_run", "leftovers")
        return {"place": str(self.place), **{name: getattr(self, name) for name in names}}

    def as_text(self) -> Iterator[TextPart]:
        """Yield it as ``lumicontainer cache prune`` prints it."""
        verb = "would remove" if self.dry_run else "removed"
        for each in self.removed:
            step = step_name(each["step"], each.get("kind", ""))
            publisher = f", of {each['publisher']}" if "publisher" in each else ""
            yield f"{verb} {step}, {units.size(each['bytes'])}{publisher}"
        for kind, number in self.leftovers.items():
            yield f"{verb} {kind}: {number}"
        size, left = units.size(self.bytes), units.size(self.left)
        yield f"{verb} {size}, {left} stay in {self.place}"
        if self.limit is not None and self.left > self.limit:
            yield f"more stays than the limit, because {self.stays}"
        if (free := self.free) is not None:
            yield f"{units.size(free)} are free at {self.place}"


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

    def as_text(self) -> Iterator[TextPart]:
        """Yield it as ``lumicontainer cache explain`` prints it."""
        rows = []
        for part in self.parts:
            publisher = f", from {part.publisher}" if part.publisher else ""
            rows.append((part.name, part.key[:12], part.state + publisher))
        yield TextTable(rows)
        first, nearest = self.missing, self.nearest
        if first and nearest is None:
            yield f"'{first.name}' is missing: the cache has no object of this name"
        elif first and nearest:
            ago = units.age(time.time() - nearest.used)
            yield f"'{first.name}' is missing; the nearest object, used {ago}, differs in"
            yield from (f"  {each}" for each in self.differences)


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
    left, stays = whole - size, "running builds use it"
    free = None if dry or not store.root.is_dir() else shutil.disk_usage(store.root).free
    return Pruned(store.root, removed, size, left, limit, dry, stays, leftovers, free=free)


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
