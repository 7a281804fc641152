"""Record which image uses which objects of the cache.

    images/<hash of the image's path>   {"image": path, "key": …, "objects": [names], "time": …}

A record is valid while the image exists with the same key.
"""

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lumicontainer.cache import written
from lumicontainer.cache.objects import (
    FILES,
    GZIP_IMAGE,
    PACKED_IMAGE,
    Entry,
    conversion_key,
    image_key,
)
from lumicontainer.cache.store import Cache
from lumicontainer.errors import InputError
from lumicontainer.image import records
from lumicontainer.system.files.write import write_whole
from lumicontainer.system.os_errors import refused
from lumicontainer.system.units import parse_size

DEFAULT_SIZE = 8 << 30
"""Bytes: 60 % of LUMI's smallest home quota (20 GB) stay free."""


@dataclass(frozen=True)
class Use:
    """Hold the record of one image."""

    note: Path
    image: str = ""
    key: str = ""
    objects: tuple[str, ...] = ()

    def counts(self) -> bool:
        """Return whether the image exists and still has the recorded key."""
        try:
            return records.key(Path(self.image)) == self.key
        except (InputError, ValueError):
            return False


def settle(
    store: Cache, stack: Sequence[Entry], say: Callable[[str], None], image: Path | None = None
) -> None:
    """Note which layers a new image has, if it is a file, and prune the cache.

    The image is complete, so that an error of the system is only a warning, which ``say`` gets.
    """
    entries = list(store.entries())
    with _warned(store, "cannot note an image in the cache", say):
        if image:
            note(store, image, stack, entries)
    prune(store, say, _objects(stack, entries), entries)


def prune(
    store: Cache,
    say: Callable[[str], None],
    keep: Collection[str] = (),
    entries: Sequence[Entry] | None = None,
) -> None:
    """Prune the cache to its limit; an error of the system is only a warning, as in ``settle``.

    ``keep`` and ``entries`` are those of ``Cache.prune``.
    """
    with _warned(store, "cannot prune the cache", say):
        known = list(store.entries()) if entries is None else entries
        store.prune(size_limit(store, known), keep, entries=known)


@contextlib.contextmanager
def _warned(store: Cache, what: str, say: Callable[[str], None]) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        problem = refused(error, what, str(store.root), "lumicontainer cache prune").problems[0]
        say(str(problem._replace(level="warning")))


def note(store: Cache, image: Path, stack: Sequence[Entry], entries: Iterable[Entry]) -> None:
    """Record the layers of an image, and what ``entries`` have of wheels and copies of these."""
    objects, key = _objects(stack, entries), stack[-1].key
    facts = {"image": str(image), "key": key, "objects": objects, "time": int(time.time())}
    name = hashlib.sha256(os.fsencode(image)).hexdigest()
    write_whole(store.root / "images" / name, json.dumps(facts).encode())


def _objects(stack: Sequence[Entry], entries: Iterable[Entry]) -> list[str]:
    keys = {str(entry.inputs.get("compiled")) for entry in stack}
    keys |= {conversion_key(entry, "gzip") for entry in stack}
    image = str(stack[0].inputs.get("image"))
    keys |= {image_key(kind, image) for kind in (FILES, PACKED_IMAGE, GZIP_IMAGE)}
    others = [e for e in entries if e.kind != "layer" and e.key in keys]
    return [entry.name for entry in (*stack, *others)]


def uses(store: Cache) -> Iterator[Use]:
    """Yield the records of images, valid or not."""
    for path in written.files(store.root / "images"):
        try:
            facts = json.loads(path.read_bytes())
            yield Use(
                path, str(facts["image"]), str(facts["key"]), tuple(map(str, facts["objects"]))
            )
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            yield Use(path)


def wanted_limit() -> int | None:
    """Return the size in bytes that LUMICONTAINER_CACHE_SIZE sets.

    Raises ``InputError`` if it is invalid.
    """
    variable = "LUMICONTAINER_CACHE_SIZE"
    named = os.environ.get(variable)
    return parse_size(named, variable) if named else None


def size_limit(store: Cache, entries: Iterable[Entry]) -> int:
    """Return the size in bytes to which a build prunes the cache of ``entries``.

    LUMICONTAINER_CACHE_SIZE sets it. Otherwise the largest image in use must fit twice, so that a
    change of its recipe keeps what the new image shares with the old one.
    """
    if (limit := wanted_limit()) is not None:
        return limit
    sizes = {entry.name: entry.size for entry in entries}
    images = (sum(sizes.get(name, 0) for name in use.objects) for use in uses(store))
    return max(DEFAULT_SIZE, 2 * max(images, default=0))
