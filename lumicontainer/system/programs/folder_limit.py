"""Limit what a container writes to a folder, whatever is in that."""

import time
from pathlib import Path

from lumicontainer.system import process
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
        self._next = time.monotonic() + max(_PAUSE, _SHARE * (time.monotonic() - began))
        if int(printed.partition("\t")[0] or 0) > self._most:
            raise LimitError(f"it wrote more than {self._most} bytes to {self._folder}")
