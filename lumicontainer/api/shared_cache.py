"""A team's shared cache: list, verify, prune and publish its objects."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from lumicontainer.api.caching import (
    CacheRow,
    Examination,
    Pruned,
    PruneRequest,
    about,
    object_table,
    total,
)
from lumicontainer.api.recipes import RecipeRequest
from lumicontainer.api.values import OnProgress, progress_of
from lumicontainer.cache import pruning
from lumicontainer.cache.objects import Entry
from lumicontainer.cache.shared import contents
from lumicontainer.cache.shared.contents import Published
from lumicontainer.cache.shared.publish import DAMAGED, NEW, PRESENT, objects_of, publish
from lumicontainer.cache.shared.shared import FOLDER, SharedCache
from lumicontainer.cache.store import Cache
from lumicontainer.core.plan.plan import planned
from lumicontainer.core.resolve.decisions import Resolved
from lumicontainer.errors import InputError, Problem
from lumicontainer.host.recipes import locate_recipe, word_of
from lumicontainer.system import units
from lumicontainer.system.files.user_cache import cache_root
from lumicontainer.system.os_errors import refused
from lumicontainer.system.terminal.progress import Progress
from lumicontainer.system.terminal.text import TextPart

STAYS = "what was published stays; ask the owner of the folder for space or permission"


class SharedContent(NamedTuple):
    """Hold the objects of a shared cache, the newest first, and those that are not taken."""

    place: Path
    objects: Sequence[CacheRow]
    doubts: Sequence[Problem]

    def as_data(self) -> dict[str, Any]:
        """Return it as ``lumicontainer cache list --shared --json`` prints it."""
        doubts = [{"name": Path(doubt.where).name, "why": doubt.why} for doubt in self.doubts]
        return {"place": str(self.place), "objects": self.objects, "not_taken": doubts}

    def as_text(self) -> Iterator[TextPart]:
        """Yield it as ``lumicontainer cache list --shared`` prints it."""
        rows = self.objects
        yield object_table(rows, "published", "by", lambda row: str(row["publisher"]))
        yield f"{units.count(len(rows), 'object')}, {units.size(total(rows))}, in {self.place}"


@dataclass(frozen=True)
class PublishRequest(RecipeRequest):
    """Say which objects are published: those of an image, or every one of the cache."""

    recipe: str | Path | Resolved = ""
    """Leave it empty for ``every``."""
    every: bool = False
    locked: bool = False
    """Whether the image was built with the pins of its lock."""
    sign: str = ""
    """An SSH key, so that other users can trust the objects."""


class Publication(NamedTuple):
    """Hold the objects by what became of them, and the cache that they are in."""

    place: Path
    objects: Mapping[str, Sequence[CacheRow]]

    @property
    def damaged(self) -> bool:
        """Return whether an object was damaged, and is not published."""
        return bool(self.objects[DAMAGED])

    def as_data(self) -> dict[str, Any]:
        """Return it as ``lumicontainer cache publish --json`` prints it."""
        states = {state.replace(" ", "_"): rows for state, rows in self.objects.items()}
        return {"place": str(self.place), **states}

    def as_text(self) -> Iterator[TextPart]:
        """Yield it as ``lumicontainer cache publish`` prints it."""
        numbers = ", ".join(f"{len(rows)} {state}" for state, rows in self.objects.items() if rows)
        yield f"{numbers or 'the cache is empty'}: {self.place}"


def open_shared() -> SharedCache:
    """Return the shared cache; raise ``InputError`` if the environment names none."""
    shared = SharedCache.named()
    if shared is None:
        hint = f"export {FOLDER}=DIR, a folder of your group"
        raise InputError(Problem("no shared cache is named", hint=hint))
    shared.require()
    return shared


def list_shared() -> SharedContent:
    """Return the objects of the shared cache, and why some are not taken."""
    shared = open_shared()
    doubts = [doubt for name in shared.names() if (doubt := shared.doubt(name, name[:12]))]
    rows = [
        {**about(entry), "published": int(entry.used), "publisher": entry.publisher}
        for entry in sorted(shared.entries(), key=lambda entry: entry.used, reverse=True)
    ]
    return SharedContent(shared.root, rows, doubts)


def verify_shared(on_progress: OnProgress | None = None) -> Examination:
    """Read every byte of the shared cache; damaged objects stay."""
    shared = open_shared()
    published, damaged = list(contents.published(shared)), []
    with progress_of(on_progress) as progress:
        progress.expect(len(published))
        for each in published:
            with progress.step(each.shown):
                why = shared.damage(each.folder.name)
            if why and shared.has(each.folder.name):  # Else its owner removed it.
                name, publisher = each.folder.name, each.publisher
                row = {"name": name, "step": each.shown, "publisher": publisher, "why": why}
                damaged.append(row)
    return Examination(shared.root, len(published) - len(damaged), damaged)


def _row(published: Published) -> dict[str, Any]:
    row = {"name": published.folder.name, "step": published.shown, "bytes": published.size}
    return {**row, "publisher": published.publisher}


def prune_shared(request: PruneRequest) -> Pruned:
    """Remove what the current user published, the oldest first; of others if that is asked for."""
    if request.max_size is None and request.max_age is None:
        hint = "add --max-size SIZE, --max-age DAYS or both"
        raise InputError(Problem("a shared cache has no limit of its own", hint=hint))
    shared, dry, limit = open_shared(), request.dry_run, request.max_size
    published, problems = list(contents.published(shared)), []

    def remove(each: Published) -> bool:
        if not (each.own or request.others):
            return False
        problem = contents.remove(each, dry=dry)
        problems.extend([problem] if problem else [])
        return not problem

    gone = pruning.prune(published, remove, limit=limit, before=request.oldest())
    if not dry:
        shared.remove_drafts()
    removed = [_row(each) for each in gone]
    size = sum(each["bytes"] for each in removed)
    left = sum(each.size for each in published) - size
    stays = "others published it"
    return Pruned(shared.root, removed, size, left, limit, dry, stays, problems=problems)


def publish_objects(request: PublishRequest, on_progress: OnProgress | None = None) -> Publication:
    """Copy objects of the cache to the shared cache; those that are there stay as they are."""
    if bool(request.recipe) == request.every:
        raise InputError(Problem("expected a recipe or --all", hint="name one of them"))
    store, shared = Cache(cache_root()), open_shared()
    entries = list(store.open().entries()) if request.every else _objects_of(store, request)
    try:
        with progress_of(on_progress) as progress:
            rows = _publish(entries, store, shared, request.sign, progress)
    except OSError as error:
        raise refused(error, "cannot publish", str(shared.root), STAYS) from error
    return Publication(shared.root if any(rows.values()) else store.root, rows)


def _publish(
    entries: Sequence[Entry], store: Cache, shared: SharedCache, key: str, progress: Progress
) -> dict[str, list[CacheRow]]:
    rows: dict[str, list[CacheRow]] = {NEW: [], PRESENT: [], DAMAGED: []}
    for each in publish(entries, store, shared, progress, key=key):
        rows[each.state].append(about(each.entry))
        if each.why:
            progress.say(f"damaged: {each.entry.shown}: {each.why}")
    return rows


def _objects_of(store: Cache, request: PublishRequest) -> Sequence[Entry]:
    resolved = request.resolve(locked=request.locked)
    word = resolved.recipe.name
    if not isinstance(request.recipe, Resolved):
        word = word_of(*locate_recipe(str(request.recipe), request.recipes))
    hint = f"lumicontainer build {word}{' --locked' * request.locked}"
    return objects_of(planned(resolved), store.open(), hint=hint)
