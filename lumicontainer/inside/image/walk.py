"""Walk the files of the image that this runs in."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import BinaryIO

from ..elf import reader
from ..elf.reader import Elf, UnreadableError

MOUNTS = "/proc/self/mountinfo"
SHOWN = "LUMI_VERIFY_MOUNTS"
"""The paths, with colons between them, at which PRoot shows files of the host."""
_LIBRARY = re.compile(r"\.so(\.[0-9]+)*$")
_PROGRAMS = ("bin", "sbin")
_TEXTS = (".py", ".pyc", ".pyi", ".h", ".hpp", ".gz", ".mo", ".txt")
"""The ends of most names of an image. No library, and outside ``_PROGRAMS`` no program has one."""


class Walked:
    """One path of the image. Its mode and size, as in ``lstat``, are read on demand.

    The kind is known from the folder. In an image that FUSE mounts, to ask for more takes longer
    than anything else of a walk.
    """

    def __init__(self, entry: os.DirEntry[str]) -> None:
        self.path = entry.path
        self._entry = entry

    @property
    def mode(self) -> int:
        """Return the kind and the permissions; raise ``OSError`` if they cannot be read."""
        return self._entry.stat(follow_symlinks=False).st_mode

    @property
    def size(self) -> int:
        """Return the number of bytes; raise ``OSError`` as ``mode`` does."""
        return self._entry.stat(follow_symlinks=False).st_size

    def is_file(self) -> bool:
        """Return whether it is a regular file."""
        return self._entry.is_file(follow_symlinks=False)

    def is_folder(self) -> bool:
        """Return whether it is a folder, not a link to one."""
        return self._entry.is_dir(follow_symlinks=False)


def mounts(table: str = MOUNTS) -> set[str]:
    """Return the mount points, without the image's own."""
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
            one = Walked(entry)
            yield one
            if one.is_folder():
                waiting.append(entry.path)


def may_be_loaded(one: Walked) -> bool:
    """Return whether a path is a file that is executable or has the name of a library."""
    # To open every other file would take longer than the rest of a check.
    folder, name = os.path.split(one.path)
    if not one.is_file() or (name.endswith(_TEXTS) and not folder.endswith(_PROGRAMS)):
        return False
    return ".so" in name or bool(one.mode & 0o111)


def loadable(one: Walked) -> Elf | str | None:
    """Return what the loader reads of a program or library, or why it would refuse the file.

    The result is None for other files. Raises ``OSError`` if the file cannot be opened.
    """
    if not may_be_loaded(one):
        return None
    if not one.size:
        folder, name = os.path.split(one.path)
        program = os.path.basename(folder) in _PROGRAMS and one.mode & 0o111
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
