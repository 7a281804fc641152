"""Name the objects of a cache by their inputs, and read what each says about itself."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LAYER, INDEX, ENTRY, SUMS = "layer.squashfs", "files.json", "entry.json", "sums"
IMAGE = "image"
"""In the layer of a base that is an image file: the place of the data that stay in that file."""
IN_PLACE, PACKED = "in the file", "packed again"
FILES, PACKED_IMAGE, GZIP_IMAGE = "files", "image", "gzip image"
"""The kinds of objects made of an image file: the index, and the file system packed again."""
LARGEST = 16 << 20
"""Bytes of a file that is read before its digest is known."""


@dataclass(frozen=True)
class Entry:
    """Hold the facts of one object."""

    folder: Path
    name: str
    key: str
    step: str
    kind: str
    """``layer``, ``wheels``, ``gzip`` (a layer in that compression), or made of an image file."""
    parent: str
    """The ``tree`` below it; empty for a base."""
    inputs: Mapping[str, Any]
    digest: str
    """The digest of all its files except ``entry.json``."""
    size: int = field(compare=False)
    used: float = field(compare=False)
    """The time of its last use, in seconds since 1970."""
    publisher: str = field(default="", compare=False)
    """The user or the key that vouches for an object of a shared cache."""

    @property
    def tree(self) -> str:
        """Return the digest of the tree of a layer and all layers below it."""
        return hashlib.sha256(f"{self.parent} {self.digest}".encode()).hexdigest()

    @property
    def shown(self) -> str:
        """Return the name of its step in a build."""
        return step_name(self.step, self.kind)

    @property
    def layer(self) -> Path:
        """Return the squashfs of a layer."""
        return self.folder / LAYER

    @property
    def image_form(self) -> str:
        """Return the place of the data of a base's image file; empty if its layer has them."""
        try:
            return (self.folder / IMAGE).read_text().strip()
        except OSError:
            return ""

    def sha256(self, name: str) -> str:
        """Return the recorded sha256 of one of its files."""
        rows = (line.split("  ", 1) for line in (self.folder / SUMS).read_text().splitlines())
        return next(digest for digest, file in rows if file == name)


def object_name(key: str, parent: str) -> str:
    """Return the name of the object of the step ``key`` on the tree ``parent``."""
    return hashlib.sha256(f"{key} {parent}".encode()).hexdigest()


def conversion_key(entry: Entry, compression: str) -> str:
    """Return the key of a layer's copy in another compression."""
    return hashlib.sha256(f"{compression} {entry.digest}".encode()).hexdigest()


def image_key(kind: str, image: str) -> str:
    """Return the key of an object made of an image file."""
    return hashlib.sha256(f"{kind} {image}".encode()).hexdigest()


_SHOWN = {"wheels": "compile", "gzip": "gzip"}
_SHOWN |= {FILES: "read files", PACKED_IMAGE: "pack again", GZIP_IMAGE: "pack as gzip"}


def step_name(step: str, kind: str) -> str:
    """Return the name in a build of the step that makes an object."""
    return f"{step}: {_SHOWN[kind]}" if kind in _SHOWN else step


def parse_entry(folder: Path, about: bytes, sums: bytes, *, size: int, used: float) -> Entry | None:
    """Return the object of ``folder`` with the content of its two records; None if invalid."""
    try:
        facts = parse_facts(about)
        rows = [row for row in sums.decode().splitlines() if not row.endswith(f"  {ENTRY}")]
        digest = hashlib.sha256("\n".join(rows).encode()).hexdigest()
        return Entry(folder, folder.name, **facts, digest=digest, size=size, used=used)
    except ValueError:
        return None


def parse_facts(about: bytes) -> dict[str, Any]:
    """Return the record of an object; raise ``ValueError`` if the record is damaged."""
    try:
        data = json.loads(about)
        facts = {each: data[each] for each in ("key", "step", "kind", "parent", "inputs")}
        # A lone surrogate could be neither hashed nor printed.
        json.dumps(facts, ensure_ascii=False).encode()
    except (KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{ENTRY} is invalid: {error}") from error
    texts = (facts[each] for each in ("key", "step", "kind", "parent"))
    if not all(isinstance(each, str) for each in texts):
        raise ValueError(f"{ENTRY} has a value of another type")
    if not isinstance(facts["inputs"], dict):
        raise ValueError(f"{ENTRY} has inputs of another type")
    return facts
