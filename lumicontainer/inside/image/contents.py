"""Read the files of the image that this runs in, from the build's list or from the disk.

The list is used only if the root has nothing but the image's own layers, and never for mounts.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping

from ..elf import reader
from ..elf.reader import Elf, UnreadableError
from .listing import FILE, Row, Walked, layers_of_root, load, loadable, mounts, walk


class Contents:
    """The files of the image: those of the build's list ``rows``, else as they are on the disk.

    ``hidden`` are the mount points.
    """

    def __init__(self, hidden: set[str], rows: Mapping[str, Row] | None = None) -> None:
        self.hidden = hidden
        self.rows = rows
        self._below = tuple(f"{path}/" for path in hidden)

    def walk(self) -> Iterator[Walked]:
        """Yield every path except mount points and what is below them, folders first."""
        if self.rows is None:
            yield from walk("/", self.hidden)
        skipped = "//"
        for path, row in (self.rows or {}).items():
            if path.startswith(skipped):
                continue
            if path in self.hidden:
                skipped = f"{path}/"
                continue
            one = Walked(path, row.mode, row.size)
            yield one
            # Only root may read some folders.
            if one.is_folder() and row.mode & 0o5 != 0o5 and not os.access(path, os.R_OK | os.X_OK):
                skipped = f"{path}/"

    def look(self, path: str) -> Walked:
        """Return one path; raise ``OSError`` if it does not exist."""
        # A path may lead through a link of a folder; the list does not have that.
        row = (self.rows or {}).get(path) if self.is_listed(path) else None
        if row:
            return Walked(path, row.mode, row.size)
        info = os.lstat(path)
        return Walked(path, info.st_mode, info.st_size)

    def loadable(self, one: Walked) -> Elf | str | None:
        """Return what ``loadable`` does; raise ``OSError`` if the file cannot be opened."""
        if self.rows is None:
            return loadable(one)
        found = self.rows[one.path].elf
        if found is not None and one.mode & 0o444 != 0o444 and not os.access(one.path, os.R_OK):
            raise PermissionError(one.path)
        return reader.elf_from_plain(found) if isinstance(found, dict) else found

    def readlink(self, path: str) -> str:
        """Return the target of a link; raise ``OSError`` for other paths."""
        if self.rows is None or not self.is_listed(path):
            return os.readlink(path)
        row = self.rows.get(path)
        if row is None or not stat.S_ISLNK(row.mode):
            raise OSError(path)
        return row.target

    def linked(self, path: str) -> Elf:
        """Return the description of a file that is not a link.

        Raises ``UnreadableError`` for other formats, and ``OSError`` as open does.
        """
        if self.rows is None or not self.is_listed(path):
            return reader.linked(path)
        row = self.rows.get(path)
        if row is None:
            raise FileNotFoundError(path)
        # The list has the description of each file that the loader is to load by its own name.
        if isinstance(row.elf, str):
            raise UnreadableError(row.elf)
        return reader.elf_from_plain(row.elf) if row.elf else reader.linked(path)

    def is_listed(self, path: str) -> bool:
        """Return whether the list is used for a path: it has nothing below mount points."""
        return not (self.rows is None or path in self.hidden or path.startswith(self._below))


def contents() -> Contents:
    """Return the files of this image.

    A damaged list, or one of another image, is ignored.
    """
    hidden = mounts()
    try:
        with open(f"/{FILE}", encoding="utf-8") as stream:
            layers, text = stream.readline(), stream.read()
        if layers_of_root() == int(layers):
            listed = Contents(hidden, {f"/{path}": row for path, row in load(text).items() if row})
            return listed if listed.is_listed(f"/{FILE}") else Contents(hidden)
    except (OSError, ValueError, TypeError):
        pass
    return Contents(hidden)
