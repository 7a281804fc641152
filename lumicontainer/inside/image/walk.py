"""Walk the files of the image that this runs in."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from ..elf import reader
from ..elf.reader import Elf, UnreadableError

MOUNTS = "/proc/self/mountinfo"
SHOWN = "LUMI_VERIFY_MOUNTS"
"""The paths, with colons between them, at which PRoot shows files of the host."""
_LIBRARY = re.compile(r"\.so(\.[0-9]+)*$")


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
        points = {line.split(" ")[4] for line in stream} - {"/"}
    shown = {path for path in os.environ.get(SHOWN, "").split(":") if path}
    return shown | {re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), p) for p in points}


def walk(root: str = "/", hidden: set[str] | None = None) -> Iterator[Walked]:
    """Yield every path below ``root`` except those in ``hidden``, by default the mount points."""
    hidden = mounts() if hidden is None else hidden
    waiting = [root]
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(folder) as entries:
                ordered = sorted(entries, key=lambda entry: entry.name)
        except PermissionError:  # only root may read it
            continue
        for entry in ordered:
            if entry.path in hidden:
                continue
            info = entry.stat(follow_symlinks=False)
            one = Walked(entry.path, info.st_mode, info.st_size)
            yield one
            if one.is_folder():
                waiting.append(entry.path)


def loadable(one: Walked) -> Elf | str | None:
    """Return what the loader reads of a program or library, or why it would refuse the file.

    The result is None for other files. Raises ``OSError`` if the file cannot be opened.
    """
    # To open every other file would take longer than the rest of the check.
    if not one.is_file() or not (one.mode & 0o111 or ".so" in os.path.basename(one.path)):
        return None
    if not one.size:
        folder, name = os.path.split(one.path)
        program = os.path.basename(folder) in ("bin", "sbin") and one.mode & 0o111
        # Elsewhere an empty file may be executable.
        return "it is empty" if program or _LIBRARY.search(name) else None
    # It is opened once: FUSE forgets at each opening what it has read of a file.
    with open(one.path, "rb") as stream:
        return _read_loadable(one, stream)


def _read_loadable(one: Walked, stream: BinaryIO) -> Elf | str | None:
    head = stream.read(len(reader.MAGIC))
    # A copy that broke off may leave zeros; other texts are scripts of the linker.
    if head == bytes(4) and _LIBRARY.search(one.path):
        return "it holds zeros where an ELF file begins"
    if head != reader.MAGIC or one.size < reader.SHORTEST:
        return None
    try:
        return reader.linked_file(stream)
    except UnreadableError as error:
        # Code for a GPU is for another processor.
        return None if "another processor" in str(error) else str(error)
