"""Time whole processes, and print the lines of the table: all benchmarks use these."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

LUMICONTAINER = (sys.executable, "-m", "lumicontainer")


def seconds(command: Sequence[object], **options: Any) -> float:
    """Return the wall time of one whole process; it must end well.

    ``options`` are as for ``subprocess.run``.
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


def peak(command: Sequence[object]) -> int:
    """Return the most memory of one process that ends well, in bytes."""
    with subprocess.Popen([str(word) for word in command]) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, process.args)
    return used.ru_maxrss * 1024


def times(theirs: float, ours: float) -> str:
    """Return the text that compares two times in seconds."""
    return f"{theirs:.1f} s: {theirs / ours:.1f} times"


def row(what: str, seen: str, limit: str = "", *, holds: bool | None = None) -> None:
    """Print one line of the table; what has no limit neither holds nor fails."""
    mark = "" if holds is None else "ok" if holds else "NOT"
    print(f"{mark:<4}{what:<44}{seen:<34}{limit}".rstrip(), flush=True)
