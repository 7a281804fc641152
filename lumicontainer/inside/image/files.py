"""Walk the files of the image that this runs in, without mounts of the host."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from typing import NamedTuple

MOUNTS = "/proc/self/mountinfo"


class Walked(NamedTuple):
    """One path of the image; ``mode`` and ``size`` are those of ``lstat``."""

    path: str
    mode: int
    size: int

    def is_file(self) -> bool:
        """Return whether it is a regular file."""
        return stat.S_ISREG(self.mode)

    def is_folder(self) -> bool:
        """Return whether it is a folder, not a link to one."""
        return stat.S_ISDIR(self.mode)


def mounts(table: str = MOUNTS) -> set[str]:
    """Return the mount points, without that of the image itself."""
    with open(table, encoding="utf-8", errors="surrogateescape") as stream:
        # The fifth word of each line, in which a space is \040.
        found = {line.split(" ")[4] for line in stream}
    return {_plain(path) for path in found} - {"/"}


def _plain(path: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), path)


def walk(root: str = "/", hidden: set[str] | None = None) -> Iterator[Walked]:
    """Yield every path below ``root`` except those in ``hidden``, by default the mount points."""
    hidden = mounts() if hidden is None else hidden
    waiting = [root]
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(folder) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except PermissionError:  # only root may read it
            continue
        for entry in found:
            if entry.path in hidden:
                continue
            info = entry.stat(follow_symlinks=False)
            one = Walked(entry.path, info.st_mode, info.st_size)
            yield one
            if one.is_folder():
                waiting.append(entry.path)
