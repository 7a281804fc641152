"""Print, as JSON, what an extension of this image must fit: its Python and its packages."""

from __future__ import annotations

import hashlib
import json
import os
import site
import sys
import sysconfig
from typing import Any

from ..elf.reader import UnreadableError, linked
from . import extensible
from .distributions import Package, packages
from .names import plain_name

_ROOTS = ("torch", "triton", "pytorch-triton", "pytorch-triton-rocm")
LIBRARIES = ("libtorch", "libc10", "libtriton")


def facts() -> dict[str, Any]:
    """Return the version of Python, PyTorch's libraries, and each package by its plain name.

    ``site`` is the folder of packages whose .pth files Python reads, as in ``sys.path`` and without
    links; ``extensible`` says whether one there adds extensions.
    ``protected`` is the sha256 of a package's list of files with their hashes (RECORD), if other
    files of it would break what was compiled.
    """
    installed, folder = packages(), _folder_of_packages()
    return {
        "site": {"folder": folder, "place": os.path.realpath(folder)},
        "extensible": os.path.exists(os.path.join(folder, extensible.NAME)),
        "python": "{}.{}".format(*sys.version_info[:2]),
        "libraries": sorted(
            os.path.basename(path)
            for each in installed
            if plain_name(each.name) in _ROOTS
            for path, _ in each.files
            if path.endswith(".so")
        ),
        "packages": {plain_name(each.name): _of(each) for each in installed},
    }


def _folder_of_packages() -> str:
    folders = [sysconfig.get_path("purelib"), *site.getsitepackages()]
    return next((each for each in folders if each in sys.path), folders[0])


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
    """Return whether a library of a package was linked with libraries of PyTorch or Triton."""
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
