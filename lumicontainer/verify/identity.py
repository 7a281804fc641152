"""Identify a verified image in its report: the sha256 of the file, and the engine that ran it."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lumicontainer.engines import find_engine
from lumicontainer.errors import LumicontainerError
from lumicontainer.system import process


def add_identity(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result with ``image.sha256`` and ``engine``; each is empty if it is unknown."""
    image = result["image"]
    sha256 = _hash_file(Path(image["file"]))
    return {**result, "image": {**image, "sha256": sha256}, "engine": _ask_engine()}


def _hash_file(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def _ask_engine() -> str:
    try:
        return process.capture([find_engine().program, "--version"]).strip()
    except LumicontainerError:
        return ""
