"""Open files that users name: a regular file or an error, never a wait for who writes to a pipe."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe (FIFO)",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def kind(mode: int) -> str:
    """Return in words what a path is that is no regular file; nothing for a regular file."""
    return _KINDS.get(stat.S_IFMT(mode), "")


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file to read it; raise ``OSError`` where it is something else."""
    # Looked at first: some devices act on being opened, and a socket tells ENXIO.
    _require(path, path.stat().st_mode)
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        _require(path, os.fstat(file).st_mode)
        return os.fdopen(file, "rb")
    except OSError:
        os.close(file)
        raise


def _require(path: Path, mode: int) -> None:
    if found := kind(mode):
        raise OSError(None, f"it is {found}, not a file", str(path))
