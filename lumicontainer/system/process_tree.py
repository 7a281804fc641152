"""Find the processes of a session with all that they started, and kill them."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple


class ProcessInfo(NamedTuple):
    """Hold the fields of /proc/PID/stat that identify a process and its kin (proc_pid_stat(5))."""

    pid: int
    parent: int
    session: int
    started: int
    """Clock ticks since boot; with ``pid`` it identifies one process."""


def descendants(pid: int) -> set[ProcessInfo]:
    """Return the processes of the session that ``pid`` led, and all that they started."""
    everyone, found = set(_all()), set[ProcessInfo]()
    more = {each for each in everyone if each.session == pid}
    while more:
        found |= more
        parents = {each.pid for each in more}
        more = {each for each in everyone - found if each.parent in parents}
    return found


def kill(pid: int) -> None:
    """Kill the processes of a session and their descendants, including new ones.

    Each process is stopped before its children are listed.
    """
    known: set[tuple[int, int]] = set()
    while found := {(each.pid, each.started) for each in descendants(pid)} - known:
        for number, _ in found:
            _send(number, signal.SIGSTOP)
        known |= found
    for number, _ in known:
        _send(number, signal.SIGKILL)


def written_bytes(pid: int) -> int:
    """Return how many bytes the processes of a session have written."""
    total = 0
    for each in descendants(pid):
        with suppress(OSError, ValueError, IndexError):
            total += int(Path(f"/proc/{each.pid}/io").read_text().split()[3])
    return total


def _send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _all() -> Iterator[ProcessInfo]:
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # A process may end at any time.
            text = (folder / "stat").read_bytes().decode(errors="replace")
            # The name may hold any character, including a bracket.
            words = text.rpartition(") ")[2].split()
            yield ProcessInfo(int(folder.name), int(words[1]), int(words[3]), int(words[19]))
