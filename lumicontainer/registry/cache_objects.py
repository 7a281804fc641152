"""The manifests of a cache's objects in a registry: the tag of each is the name of the object.

The layers of a manifest are the files of the object, in the order of its sums, which they state:
the digest of each, and its name as the title. A signature of the sums is an annotation.
"""

import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from lumicontainer.cache.integrity import Damaged, sums_of
from lumicontainer.cache.objects import ENTRY, LARGEST
from lumicontainer.host.transfers import json_object
from lumicontainer.registry.artifacts import CONFIG, EMPTY, MANIFEST, TITLE
from lumicontainer.registry.cutting import digest_of_bytes
from lumicontainer.system import budget, units

OBJECT = "application/vnd.lumicontainer.cache.object.v1"
FILE = "application/vnd.lumicontainer.cache.file.v1"
SIGNATURE = "org.lumicontainer.cache.signature"
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
_MOST_FILES = 10_000
_LONGEST_NAME = 255


class ObjectFile(NamedTuple):
    """Hold a file of an object."""

    name: str
    size: int
    digest: str
    """As registries write it."""


class ObjectManifest(NamedTuple):
    """Hold the files of an object, in the order of its sums, and the signature of these."""

    files: Sequence[ObjectFile]
    signature: bytes

    @property
    def size(self) -> int:
        """Return the bytes of all files."""
        return sum(each.size for each in self.files)

    @property
    def sums(self) -> bytes:
        """Return the sums of the object."""
        rows = (f"{each.digest.partition(':')[2]}  {each.name}\n" for each in self.files)
        return "".join(rows).encode()

    @property
    def about(self) -> ObjectFile:
        """Return the file that says what the object is; raise ``Damaged`` if there is none."""
        for each in self.files:
            if each.name == ENTRY and each.size <= LARGEST:
                return each
        raise Damaged(f"it has no {ENTRY} of at most {units.size(LARGEST)}")

    def write(self) -> bytes:
        """Return the manifest in JSON."""
        config = {"mediaType": EMPTY, "digest": digest_of_bytes(CONFIG), "size": len(CONFIG)}
        layers = [
            {"mediaType": FILE, "digest": digest, "size": size, "annotations": {TITLE: name}}
            for name, size, digest in self.files
        ]
        head = {"schemaVersion": 2, "mediaType": MANIFEST, "artifactType": OBJECT}
        signed = {SIGNATURE: self.signature.decode()} if self.signature else {}
        content = {**head, "config": config, "layers": layers, "annotations": signed}
        return json.dumps(content).encode()


def read_object(body: bytes) -> ObjectManifest:
    """Return the object that a manifest describes; raise ``Damaged`` if it describes none."""
    content = json_object(body)
    rows, annotations = content.get("layers"), content.get("annotations")
    if content.get("artifactType") != OBJECT or not isinstance(rows, list):
        raise Damaged(f"its manifest is not one of the type {OBJECT}")
    if len(rows) > _MOST_FILES:
        raise Damaged(f"it has {len(rows)} files, expected at most {_MOST_FILES}")
    signature = annotations.get(SIGNATURE, "") if isinstance(annotations, dict) else ""
    if not isinstance(signature, str):
        raise Damaged("its signature is invalid")
    try:
        manifest = ObjectManifest([*map(_read_file, rows)], signature.encode())
        names = sums_of(manifest.sums)
    except UnicodeEncodeError as error:
        raise Damaged(f"its manifest is invalid: {error.reason}") from error
    if [*names] != [each.name for each in manifest.files]:
        raise Damaged("its manifest has an invalid name of a file")
    if manifest.size > budget.LAYER.most:
        most = units.size(budget.LAYER.most)
        raise Damaged(f"it has {units.size(manifest.size)}, expected at most {most}")
    return manifest


def _read_file(row: Any) -> ObjectFile:
    try:
        name, size, digest = row["annotations"][TITLE], row["size"], row["digest"]
    except (KeyError, TypeError) as error:
        raise Damaged(f"its manifest has an invalid row: {error!s:.80}") from error
    valid = (
        isinstance(name, str) and 0 < len(name) <= _LONGEST_NAME and type(size) is int and size >= 0
    )
    if not (valid and isinstance(digest, str) and _DIGEST.fullmatch(digest)):
        raise Damaged(f"its manifest has an invalid row: {row!a:.200}")
    return ObjectFile(name, size, digest)
