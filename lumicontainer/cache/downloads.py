"""Keep the files of packages that were downloaded; each has its sha256 as its name.

Who needs one gives it a second place before it reads it: its name here may go at any time.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from lumicontainer.cache import written
from lumicontainer.system.files.partial import remove_leftovers

FOLDER = "packages"
_PARTIAL = ".partial-"


class Download(NamedTuple):
    """Hold one file."""

    path: Path
    size: int
    used: float
    """The time of its download, or of its last use, in seconds since 1970."""
    kind: str = "download"

    @property
    def name(self) -> str:
        """Return its sha256."""
        return self.path.name


def downloads(root: Path) -> Iterator[Download]:
    """Yield the files that the cache ``root`` has."""
    for path in written.files(root / FOLDER):
        with suppress(FileNotFoundError):  # Another prune may remove it.
            info = path.stat()
            yield Download(path, info.st_size, info.st_mtime)


def note_use(path: Path) -> None:
    """Note that a file is used, which is then removed later than others."""
    with suppress(OSError):
        os.utime(path)


def remove_partial(root: Path) -> None:
    """Remove the partial files of killed downloads."""
    folder = root / FOLDER
    names = {path.name[1:].partition(_PARTIAL)[0] for path in folder.glob(f".*{_PARTIAL}*")}
    for name in names:
        remove_leftovers(folder / name)
