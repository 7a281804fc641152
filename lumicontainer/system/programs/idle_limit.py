"""Limit how long the processes of a program may do nothing."""

import time

from lumicontainer.system import process_tree
from lumicontainer.system.budget import LimitError

_PAUSE = 5.0
"""Seconds between two looks."""
_LONGEST = 60.0
"""Seconds between two looks that count at most: Slurm may have suspended all of a job."""
_WORK = 1.0
"""Seconds of processor time that are work: a program that only waits may look around meanwhile."""


class IdleLimit:
    """Watch programs that print nothing while they work: downloads and builds write files."""

    def __init__(self, pid: int, most: float) -> None:
        self._pid, self._most = pid, most
        self._next = time.monotonic() + min(_PAUSE, most)
        self._last, self._idle = time.monotonic(), 0.0
        self._work = process_tree.Work(0, 0)

    def require(self) -> None:
        """Raise ``LimitError`` if they have done nothing for too long; return soon if not."""
        now = time.monotonic()
        if not self._most or now < self._next:
            return
        self._next = now + min(_PAUSE, self._most)
        work, elapsed = process_tree.sum_work(self._pid), min(now - self._last, _LONGEST)
        self._last = now
        self._idle = 0.0 if self._has_grown(work) else self._idle + elapsed
        if not self._idle:
            self._work = work
        elif self._idle >= self._most:
            error = LimitError(f"its programs did nothing for {self._most / 60:g} min")
            error.folder = process_tree.read_last_folder(self._pid)
            raise error

    def _has_grown(self, work: process_tree.Work) -> bool:
        # A process that ends takes its own work with it.
        before = self._work
        return abs(work.seconds - before.seconds) > _WORK or work.written != before.written
