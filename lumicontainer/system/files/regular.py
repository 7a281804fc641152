"""Open files that users name, only regular ones so that no pipe blocks; see if they change."""

import os
import stat
from pathlib import Path
from typing import BinaryIO

_KINDS = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
_KINDS |= dict.fromkeys((stat.S_IFCHR, stat.S_IFBLK), "a device")


def kind(mode: int) -> str:
    """Return the kind of a path in words; empty for a regular file."""
    return _KINDS.get(stat.S_IFMT(mode), "")


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading; raise ``OSError`` for another kind."""
    # First by name: some devices act when they are opened.
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


def state_of(path: Path) -> tuple[str | int, ...]:
    """Return what changes when a file does: its path, inode, size and times."""
    info = path.stat()
    place = (os.path.realpath(path), info.st_dev, info.st_ino)
    return (*place, info.st_size, info.st_mtime_ns, info.st_ctime_ns)
