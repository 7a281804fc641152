"""Tell on stderr how far a long work is; stdout is kept for results."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

_REDRAW = 0.1
_HEARTBEAT = 30.0


@dataclass
class Progress:
    """Count the steps of a work and tell of each; on a terminal the last line is redrawn."""

    total: int
    done: int = 0
    times: dict[str, float] = field(default_factory=dict)
    """Seconds that each finished step took."""
    _name: str = ""
    _begun: float = 0.0
    _told: float = 0.0

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Announce a step, and say how long it took once it ends well."""
        self.done += 1
        self._name, self._begun, self._told = name, time.monotonic(), time.monotonic()
        if not sys.stderr.isatty():
            self._say(f"{self._label()} …")
        try:
            yield
        except BaseException:
            self._say(f"{self._label()}  not finished")
            raise
        self.times[name] = time.monotonic() - self._begun
        self._say(f"{self._label()}  {self.times[name]:.1f} s")

    def line(self, text: str) -> None:
        """Show the latest line of the running step: at once on a terminal, else now and then."""
        now = time.monotonic()
        elapsed = f"{now - self._begun:.0f} s"
        if sys.stderr.isatty():
            if now - self._told >= _REDRAW:
                self._told = now
                width = shutil.get_terminal_size().columns - 1
                shown = f"{self._label()}  {elapsed}  {text.strip()}"[:width]
                sys.stderr.write(f"\r\x1b[K{shown}")
                sys.stderr.flush()
        elif now - self._told >= _HEARTBEAT:
            self._told = now
            self._say(f"{self._label()}  {elapsed}: {text.strip()[:80]}")

    def _label(self) -> str:
        width = len(str(self.total))
        return f"[{self.done:>{width}}/{self.total}] {self._name:<18}"

    def _say(self, text: str) -> None:
        start = "\r\x1b[K" if sys.stderr.isatty() else ""
        sys.stderr.write(f"{start}{text}\n")
        sys.stderr.flush()


def say(text: str) -> None:
    """Print one line of talk to stderr."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
