"""Walk the files of the image this runs in, and no others: what is mounted belongs to the host."""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_MOUNTS = "/proc/self/mountinfo"


class Walked:
    """Hold one path of the image: what it is called, and what ``lstat`` tells of it."""

    __slots__ = ("path", "stat")

    def __init__(self, path: str, status: os.stat_result) -> None:
        self.path = path
        self.stat = status

    def is_file(self) -> bool:
        """Tell whether it is a file, and no link to one."""
        return stat.S_ISREG(self.stat.st_mode)

    def is_folder(self) -> bool:
        """Tell whether it is a folder, and no link to one."""
        return stat.S_ISDIR(self.stat.st_mode)


def mounts(table: str = _MOUNTS) -> set[str]:
    """Return the paths upon which something is mounted, beside the image itself."""
    with open(table, encoding="utf-8", errors="surrogateescape") as stream:
        # Of each line the fifth word; a space in it is written as \040.
        found = {line.split(" ")[4] for line in stream}
    return {_plain(path) for path in found} - {"/"}


def _plain(path: str) -> str:
    for sign, code in ((" ", "\\040"), ("\t", "\\011"), ("\n", "\\012"), ("\\", "\\134")):
        path = path.replace(code, sign)
    return path


def walk(root: str = "/", hidden: set[str] | None = None) -> Iterator[Walked]:
    """Yield every path below ``root`` but those in ``hidden``, which are the mounts by default."""
    hidden = mounts() if hidden is None else hidden
    waiting = [root]
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(folder) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except PermissionError:  # a folder of root's, and this is another user
            continue
        for entry in found:
            if entry.path in hidden:
                continue
            one = Walked(entry.path, entry.stat(follow_symlinks=False))
            yield one
            if one.is_folder():
                waiting.append(entry.path)
