"""Which image uses which objects of the cache: a build notes it, people are told.

    images/<hash of the image's path>   {"image": path, "key": …, "objects": [names], "time": …}

A note counts while the image is there with the same key.
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


@dataclass(frozen=True)
class Use:
    """Hold what was noted of one image."""

    note: Path
    """The file that says it."""
    image: str = ""
    key: str = ""
    objects: tuple[str, ...] = ()

    def counts(self) -> bool:
        """Tell whether the image is there, and is the one of which this was noted."""
        try:
            return records.key(Path(self.image)) == self.key
        except (InputError, ValueError):
            return False


def note(store: Cache, image: Path, stack: Sequence[Entry]) -> None:
    """Note that an image was made of layers, and of the wheels that were installed in these."""
    wanted = {str(entry.inputs.get("compiled")) for entry in stack}
    wheels = [e for e in store.entries() if e.kind == "wheels" and e.key in wanted]
    told = {
        "image": str(image),
        "key": stack[-1].key,
        "objects": [entry.name for entry in (*stack, *wheels)],
        "time": int(time.time()),
    }
    name = hashlib.sha256(os.fsencode(image)).hexdigest()
    draft = store.root / "images" / f".{name}.{os.getpid()}"
    draft.write_text(json.dumps(told))
    draft.replace(store.root / "images" / name)


def uses(store: Cache) -> Iterator[Use]:
    """Yield what is noted of images, whether it counts or not."""
    for path in sorted((store.root / "images").glob("[!.]*")):
        try:
            told = json.loads(path.read_bytes())
            yield Use(path, str(told["image"]), str(told["key"]), tuple(told["objects"]))
        except (OSError, ValueError, KeyError, TypeError):
            yield Use(path)
