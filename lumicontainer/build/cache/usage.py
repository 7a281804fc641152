"""Record which image uses which objects of the cache.

    images/<hash of the image's path>   {"image": path, "key": …, "objects": [names], "time": …}

A record is valid while the image exists with the same key.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lumicontainer.build.cache.store import Cache, Entry
from lumicontainer.errors import InputError
from lumicontainer.image import records
from lumicontainer.system.files.write import write_whole


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


def note(store: Cache, image: Path, stack: Sequence[Entry]) -> None:
    """Record the layers of an image, and the wheels installed in them."""
    wanted = {str(entry.inputs.get("compiled")) for entry in stack}
    wheels = [e for e in store.entries() if e.kind == "wheels" and e.key in wanted]
    facts = {
        "image": str(image),
        "key": stack[-1].key,
        "objects": [entry.name for entry in (*stack, *wheels)],
        "time": int(time.time()),
    }
    name = hashlib.sha256(os.fsencode(image)).hexdigest()
    write_whole(store.root / "images" / name, json.dumps(facts).encode())


def uses(store: Cache) -> Iterator[Use]:
    """Yield the records of images, valid or not."""
    for path in sorted((store.root / "images").glob("[!.]*")):
        try:
            facts = json.loads(path.read_bytes())
            yield Use(path, str(facts["image"]), str(facts["key"]), tuple(facts["objects"]))
        except (OSError, ValueError, KeyError, TypeError):
            yield Use(path)
