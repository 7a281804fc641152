"""Limit how many bytes the processes of a program write, to whatever files."""

import time

from lumicontainer.system import process_tree
from lumicontainer.system.budget import LimitError

_PAUSE = 5.0
"""Seconds between two looks at least."""
_SHARE = 20
"""A look is followed by a pause of as many times its duration."""


class WriteLimit:
    """Count all that they write, also to files that are removed again.

    Bytes that a program writes to files in its memory (mmap(2)) do not count: it is for programs of
    this host, and ``FolderLimit`` is for programs of others.
    """

    def __init__(self, pid: int, most: int) -> None:
        self._pid, self._most = pid, most
        self._next = time.monotonic() + _PAUSE

    def require(self) -> None:
        """Raise ``LimitError`` if they wrote more bytes; return soon if not."""
        began = time.monotonic()
        if not self._most or began < self._next:
            return
        written = process_tree.count_written_bytes(self._pid)
        self._next = time.monotonic() + max(_PAUSE, _SHARE * (time.monotonic() - began))
        if written > self._most:
            raise LimitError(f"it wrote more than {self._most} bytes")
