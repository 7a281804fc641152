"""Open files that users name, only regular ones so that no pipe blocks; see if they change."""

import os
import stat
from io import BufferedReader
from pathlib import Path
from typing import TypeAlias

_KINDS = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
_KINDS |= dict.fromkeys((stat.S_IFCHR, stat.S_IFBLK), "a device")
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY

FileState: TypeAlias = tuple[str | int, ...]


def kind(mode: int) -> str:
    """Return the kind of a path in words; empty for a regular file."""
    return _KINDS.get(stat.S_IFMT(mode), "")


def open_regular(path: Path) -> BufferedReader:
    """Open a regular file for reading; raise ``OSError`` for another kind."""
    # First by name: some devices act when they are opened.
    _require(path, path.stat().st_mode)
    return _open(path, _FLAGS)


def open_no_link(path: Path | str, folder: int | None = None) -> BufferedReader:
    """Open a regular file, in the open ``folder`` if it is given; raise ``OSError`` for a link."""
    return _open(path, _FLAGS | os.O_NOFOLLOW, folder)


def _open(path: Path | str, flags: int, folder: int | None = None) -> BufferedReader:
    file = os.open(path, flags, dir_fd=folder)
    try:
        _require(path, os.fstat(file).st_mode)
        return os.fdopen(file, "rb")
    except OSError:
        os.close(file)
        raise


def _require(path: Path | str, mode: int) -> None:
    if name := kind(mode):
        raise OSError(None, f"it is {name}, not a file", str(path))


def file_state(path: Path) -> FileState:
    """Return what changes when a file does: its path, inode, size and times."""
    info = path.stat()
    place = (os.path.realpath(path), info.st_dev, info.st_ino)
    return (*place, info.st_size, info.st_mtime_ns, info.st_ctime_ns)
