"""Print, as JSON, what an extension of this image must fit: its Python and its packages."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from typing import Any

from ..elf.reader import UnreadableError, linked
from .distributions import Package, packages
from .names import plain_name

_ROOTS = ("torch", "triton", "pytorch-triton", "pytorch-triton-rocm")
LIBRARIES = ("libtorch", "libc10", "libtriton")


def facts() -> dict[str, Any]:
    """Return the version of Python, PyTorch's libraries, and each package by its plain name.

    ``protected`` is the sha256 of a package's list of files with their hashes (RECORD), if other
    files of it would break what was compiled.
    """
    found = packages()
    return {
        "python": "{}.{}".format(*sys.version_info[:2]),
        "libraries": sorted(
            os.path.basename(path)
            for each in found
            if plain_name(each.name) in _ROOTS
            for path, _ in each.files
            if path.endswith(".so")
        ),
        "packages": {plain_name(each.name): _of(each) for each in found},
    }


def _of(package: Package) -> dict[str, Any]:
    protected = plain_name(package.name) in _ROOTS or _is_linked(package)
    record = hashlib.sha256(package.text("RECORD").encode()).hexdigest()
    return {
        "version": package.version,
        "requires": package.requires(),
        "modules": list(package.modules()),
        "protected": record if protected else "",
    }


def _is_linked(package: Package) -> bool:
    """Return whether a library of a package was linked with those of PyTorch or Triton."""
    return any(
        name.startswith(LIBRARIES)
        for path, _ in package.files
        if path.endswith(".so")
        for name in _needed(path)
    )


def _needed(path: str) -> tuple[str, ...]:
    try:
        return linked(path).needed
    except (OSError, UnreadableError):
        return ()


def main() -> None:
    """Print the facts."""
    json.dump(facts(), sys.stdout)
