"""Limit what a container writes to a folder, whatever the folder holds."""

import os
import stat
import time
from contextlib import suppress
from pathlib import Path

from lumicontainer.system import process, process_tree
from lumicontainer.system.budget import LimitError

_PAUSE = 5.0
"""Seconds between two measurements at least."""
_SHARE = 20
"""A measurement is followed by a pause of as many times its duration."""


class FolderLimit:
    """Measure a folder again and again: a large one more rarely."""

    def __init__(self, folder: Path, most: int) -> None:
        self._folder, self._most = folder, most
        self._next = time.monotonic() + _PAUSE

    def require(self) -> None:
        """Raise ``LimitError`` if the folder takes more bytes of the disk; return soon if not."""
        began = time.monotonic()
        if began < self._next:
            return
        # It measures depths of folders that have no path, and passes over what is being removed.
        printed = process.run_to_end(
            ["du", "-sx", "--block-size=1", "--", str(self._folder)]
        ).stdout
        size = int(printed.partition("\t")[0] or 0) + _measure_unnamed(self._folder)
        self._next = time.monotonic() + max(_PAUSE, _SHARE * (time.monotonic() - began))
        if size > self._most:
            raise LimitError(f"it wrote more than {self._most} bytes to {self._folder}")


def _measure_unnamed(folder: Path) -> int:
    """Return the size of removed files that our programs hold open on a folder's file system."""
    device, sizes = folder.stat().st_dev, dict[int, int]()
    own = os.getpid()
    for pid in (each.pid for _, each in process_tree.descendants(own) if each.pid != own):
        with suppress(OSError):  # It may end at any time.
            for descriptor in Path(f"/proc/{pid}/fd").iterdir():
                with suppress(OSError):
                    info = descriptor.stat()
                    if info.st_nlink == 0 and stat.S_ISREG(info.st_mode) and info.st_dev == device:
                        sizes[info.st_ino] = info.st_blocks * 512
    return sum(sizes.values())
