"""Find the other files in a folder of packages: all code that is built could read it."""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    parse_sdist_filename,
    parse_wheel_filename,
)

_LISTS = ("index.html", "index.json")
"""An index's lists of files (PEP 503 and 691)."""
_BESIDE = ".metadata"
"""The ending of the metadata of a wheel, which an index may offer next to it (PEP 658)."""
_SHOWN = 3


def find_other_files(folder: Path) -> list[str]:
    """Return the names of files in ``folder`` that are not packages; three at most.

    As an index is a folder of folders, packages may be one level down. A link is not a package:
    it leads elsewhere once the folder is mounted.
    """
    return list(islice(_others(folder, "", deeper=True), _SHOWN))


def _others(folder: Path, prefix: str, *, deeper: bool) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            name, mode = prefix + entry.name, entry.stat(follow_symlinks=False).st_mode
            if stat.S_ISDIR(mode) and deeper:
                yield from _others(Path(entry), f"{name}/", deeper=False)
            elif not (stat.S_ISREG(mode) and _belongs(entry.name)):
                yield name


def _belongs(name: str) -> bool:
    if name in _LISTS:
        return True
    package = name.removesuffix(_BESIDE)
    with suppress(InvalidWheelFilename):
        return bool(parse_wheel_filename(package))
    with suppress(InvalidSdistFilename):
        return bool(parse_sdist_filename(package))
    return False
