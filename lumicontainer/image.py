"""Read an image without starting a container: its metadata, its key, its files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from lumicontainer import process, sif
from lumicontainer.errors import HostError, Problem
from lumicontainer.model import Bind
from lumicontainer.regular import open_regular

KEY_LABEL = "org.lumicontainer.key"
CHECKED_LABEL = "org.lumicontainer.checked"
"""What an image that was not checked has beside its key, as ``no``."""
RECORD = "opt/lumicontainer/resolved.json"
_NO_SUCH_FILE = 2
"""The exit status of unsquashfs where all it lacks is the file; 1 is of what it cannot read."""


def metadata(image: Path) -> dict[str, Any]:
    """Return the metadata object of an image; empty where it has none, or a damaged one.

    Raises ``InputError`` where ``image`` is no image.
    """
    for each in sif.read_objects(image):
        if each.kind == sif.JSON and each.name == sif.METADATA:
            with open_regular(image) as file:
                file.seek(each.offset)
                return _object(file.read(each.size))
    return {}


def _object(text: bytes) -> dict[str, Any]:
    """Return a JSON object; an empty one where the text is damaged, which then tells nothing."""
    try:
        return dict(json.loads(text))
    except (ValueError, TypeError):
        return {}


def labels(image: Path) -> Mapping[str, Any]:
    """Return the labels of an image."""
    found: Mapping[str, Any] = metadata(image).get("data", {}).get("attributes", {})
    return dict(found.get("labels") or {})


def key(image: Path) -> str:
    """Return the key of the plan that an image was built from, or nothing."""
    return str(labels(image).get(KEY_LABEL, ""))


def checked(image: Path) -> bool:
    """Tell whether an image was built with its checks, and not with ``--no-verify``."""
    return labels(image).get(CHECKED_LABEL) != "no"


def read_file(image: Path, name: str) -> bytes | None:
    """Return the bytes of one file in an image; None where it has none.

    Raises ``HostError`` where this host cannot read the image's file systems.
    """
    for each in reversed(sif.partitions(image)):
        # What an engine's user lays on top of an image is ext3; what the image tells is below.
        found = _cat(image, each.offset, name) if each.form == sif.SQUASHFS else None
        if found is not None:
            return found
    return None


def wanted_of_host(image: Path) -> tuple[tuple[Bind, ...], tuple[Bind, ...]]:
    """Return what of its host an image needs, and which of its host's libraries.

    An image that tells of nothing needs nothing.
    """
    try:
        record = json.loads(read_file(image, RECORD) or b"")
    except ValueError:
        return (), ()
    return _binds(record.get("binds", ())), _binds(record.get("host_libraries", ()))


def _binds(rows: Iterable[Mapping[str, str]]) -> tuple[Bind, ...]:
    return tuple(Bind(row["path"], row.get("why", ""), row.get("source", "")) for row in rows)


def _cat(image: Path, offset: int, name: str) -> bytes | None:
    command = ["unsquashfs", "-offset", str(offset), "-cat", str(image), name]
    try:
        return process.capture_bytes(command)
    except process.ProgramError as error:
        if error.status == _NO_SUCH_FILE:
            return None
        mend = "get squashfs-tools 4.5 or later with its compression, or bring the image here anew"
        said = "\n".join(f"{each.what}: {each.why}" for each in error.problems)
        raise HostError(
            Problem("this host cannot read the image", str(image), said, mend)
        ) from error
