"""What the benchmarks share: the time of one whole process, and a line of the table."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

LUMICONTAINER = (sys.executable, "-m", "lumicontainer")


def seconds(command: Sequence[object], **options: Any) -> float:
    """Return the wall time of one whole process; it must end well.

    ``options`` are those of ``subprocess.run``.
    """
    options = {"stdout": subprocess.DEVNULL, **options}
    begun = time.perf_counter()
    subprocess.run([str(word) for word in command], check=True, **options)
    return time.perf_counter() - begun


def taken(command: Sequence[object], **options: Any) -> tuple[float, float]:
    """Return the wall time and the processor time of one whole process with its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    wall = seconds(command, **options)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def row(what: str, seen: str, limit: str = "", *, holds: bool | None = None) -> None:
    """Print one line of the table; what has no limit neither holds nor fails."""
    mark = "" if holds is None else "ok" if holds else "NOT"
    print(f"{mark:<4}{what:<44}{seen:<34}{limit}".rstrip(), flush=True)
