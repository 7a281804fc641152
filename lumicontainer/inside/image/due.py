"""The paths that a check of each path has to judge: all of this image, or those that are new to it.

Checks that name this module in their ``imports`` are forked from a process that has found them.
"""

import os
from collections.abc import Iterator, Sequence

from ..checking import DUE_PATHS, EVERY_PATH
from .installed import MOUNTED
from .walk import Walked

_NAMED = os.environ.get(DUE_PATHS) or EVERY_PATH


def _find(paths: Sequence[str]) -> Iterator[Walked]:
    """Yield those of absolute ``paths`` that a walk of the image yields.

    These are not ``/``, and nothing over which something is mounted.
    """
    mounted = tuple(f"{each}/" for each in MOUNTED)
    folders: dict[str, set[str]] = {}
    for path in paths:
        if not f"{path}/".startswith(mounted):
            folder, name = os.path.split(path)
            folders.setdefault(folder, set()).add(name)
    for folder, names in folders.items():
        try:
            with os.scandir(folder) as entries:
                yield from (Walked(entry) for entry in entries if entry.name in names)
        except PermissionError:  # only root may read it
            continue


ALL = _NAMED == EVERY_PATH
"""Whether every path is due, as without a build that names some."""
DUE: Sequence[Walked]
if ALL:
    from .paths import PATHS as DUE
else:
    DUE = tuple(_find(_NAMED.split(":")))
