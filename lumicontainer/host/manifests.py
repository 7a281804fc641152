"""Read what a registry says about an image, and keep an image that was saved.

Manifests, indexes and configurations follow the OCI image specification. Their bytes have
been compared with a digest, or are what a tag names; nothing else about them is trusted.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lumicontainer.errors import DownloadError, Problem

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_MOST_LAYERS = 1000
"""Docker makes 127 at most."""
_NOTES = "image.json"
_MACHINE = ("linux", "amd64")


class Blob(NamedTuple):
    """Hold how a manifest names some bytes; the size is None if it states none."""

    digest: str
    size: int | None = None


class Manifest(NamedTuple):
    """Hold the layers of an image, the lowest first, and its configuration."""

    layers: Sequence[Blob]
    config: Blob


class SavedImage(NamedTuple):
    """Hold the files of an image's layers, the lowest first, and its variables."""

    layers: Sequence[Path]
    environment: Sequence[str]
    """As NAME=VALUE."""


def write_saved(folder: Path, saved: SavedImage) -> None:
    """Write down what was saved into a folder."""
    names = [layer.name for layer in saved.layers]
    text = json.dumps({"layers": names, "environment": saved.environment})
    (folder / _NOTES).write_text(text)


def read_saved(folder: Path) -> SavedImage:
    """Return what ``write_saved`` wrote into a folder."""
    notes = json.loads((folder / _NOTES).read_text())
    return SavedImage([folder / name for name in notes["layers"]], notes["environment"])


def parse_manifest(body: bytes, image: str) -> Manifest | Blob:
    """Return an image's manifest, or the image for this machine that an index names.

    Raises ``DownloadError`` if it is neither.
    """
    manifest = _object(_parse(body, image), image, "it")
    if "manifests" in manifest:
        return _for_this_machine(_objects(manifest["manifests"], image, "'manifests'"), image)
    layers = list(_objects(manifest.get("layers"), image, "'layers'"))
    if len(layers) > _MOST_LAYERS:
        raise _invalid(image, f"it has {len(layers)} layers")
    config = _object(manifest.get("config"), image, "'config'")
    return Manifest([_blob(each, image) for each in layers], _blob(config, image))


def parse_variables(body: bytes, image: str) -> list[str]:
    """Return the variables in the configuration of an image, as NAME=VALUE."""
    about = _object(_parse(body, image), image, "its configuration")
    config = about.get("config")
    variables = _object({} if config is None else config, image, "its configuration").get("Env")
    rows = [] if variables is None else variables
    if not isinstance(rows, list) or not all(map(_is_text, rows)):
        raise _invalid(image, "'Env' of its configuration is not a list of texts")
    return rows


def _is_text(value: object) -> bool:
    """Return whether a value is text that a variable can have."""
    if not isinstance(value, str) or "\0" in value:
        return False
    try:
        return bool(value.encode())
    except UnicodeEncodeError:
        return False


def _for_this_machine(rows: Iterator[Mapping[str, Any]], image: str) -> Blob:
    fitting = []
    for row in rows:
        kind = row.get("platform")
        if isinstance(kind, dict) and (kind.get("os"), kind.get("architecture")) == _MACHINE:
            # One with a variant, such as v3, may need a newer processor.
            fitting.append((str(kind.get("variant") or ""), row))
    if not fitting:
        raise DownloadError(Problem(f"'{image}' has no image for amd64", hint="name another image"))
    return _blob(min(fitting, key=lambda each: each[0])[1], image)


def _blob(row: Mapping[str, Any], image: str) -> Blob:
    digest, size = row.get("digest"), row.get("size")
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise _invalid(image, f"expected a digest by sha256, got {_shown(digest)}")
    if size is not None and (type(size) is not int or size < 0):
        raise _invalid(image, f"expected a size in bytes, got {_shown(size)}")
    return Blob(digest, size)


def _parse(body: bytes, image: str) -> object:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise _invalid(image, "it is not JSON") from error


def _object(value: object, image: str, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _invalid(image, f"{what} is {_shown(value)}, not an object")
    return value


def _objects(value: object, image: str, what: str) -> Iterator[dict[str, Any]]:
    if not isinstance(value, list):
        raise _invalid(image, f"{what} is {_shown(value)}, not a list")
    yield from (_object(each, image, f"a row of {what}") for each in value)


def _shown(value: object) -> str:
    return f"{value!a:.200}" if isinstance(value, (str, int, float)) else type(value).__name__


def _invalid(image: str, why: str) -> DownloadError:
    what = "the registry sent an invalid manifest or configuration"
    return DownloadError(Problem(what, image, why, "name another image, or a mirror"))
