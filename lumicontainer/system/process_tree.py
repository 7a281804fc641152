"""Report what the processes of a session do, and kill them."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from lumicontainer.system.terminal.output import clean

_COMMAND = 160
_FRAMES = 8
_ENDED = ("Z", "X")
_DYING = 5.0
"""Seconds that the kernel has to end killed processes."""
_TURN = 0.01
"""Seconds between two looks at them."""
_STATES = {"R": "running", "S": "sleeping", "D": "waiting for a device"}
_STATES |= {"T": "stopped", "Z": "ended"}


class ProcessInfo(NamedTuple):
    """Hold the fields of /proc/PID/stat that a report needs (proc_pid_stat(5))."""

    pid: int
    parent: int
    session: int
    name: str
    state: str
    seconds: float
    """Processor time."""
    started: int
    """Clock ticks since boot; with ``pid`` it identifies one process."""


class Work(NamedTuple):
    """Hold what processes have done."""

    seconds: float
    """Processor time."""
    written: int
    """Bytes to files, pipes and terminals; parents count their ended children too."""


def descendants(pid: int) -> Iterator[tuple[int, ProcessInfo]]:
    """Yield depth and process for ``pid``, its session and all descendants, parents first."""
    everyone = list(_all())
    children: dict[int, list[ProcessInfo]] = {}
    for each in everyone:
        children.setdefault(each.parent, []).append(each)
    session = [each for each in everyone if pid in (each.pid, each.session)]
    members = {each.pid for each in session}
    waiting = sorted(((0, each) for each in session if each.parent not in members), reverse=True)
    while waiting:
        depth, each = waiting.pop()
        yield depth, each
        started = sorted(children.get(each.pid, ()), reverse=True)
        waiting += [(depth + 1, child) for child in started]


def report(pid: int) -> str:
    """Return command, state and kernel stack of a session's processes."""
    processes = descendants(pid)
    return "\n".join(line for depth, each in processes for line in _lines(each, "  " * depth))


def kill(pid: int) -> None:
    """Kill processes as ``killing`` does, and wait for their end."""
    for pause in killing(pid):
        time.sleep(pause)


def killing(pid: int) -> Iterator[float]:
    """Kill a process, its session and all their descendants, including new ones.

    Each process is stopped before its children are listed. Yields how long to wait while one has
    not ended; those that wait for a device may be left.
    """
    known: set[tuple[int, int]] = set()
    while new := {(each.pid, each.started) for _, each in descendants(pid)} - known:
        for number, _ in new:
            _send(number, signal.SIGSTOP)
        known |= new
    for number, _ in known:
        _send(number, signal.SIGKILL)
    end = time.monotonic() + _DYING
    while any(read_start(number) == start for number, start in known) and time.monotonic() < end:
        yield _TURN


def read_start(pid: int) -> int:
    """Return the start of a process in clock ticks since boot; 0 if it has ended."""
    with suppress(OSError):
        fields = _read(Path(f"/proc/{pid}"))
        # The kernel keeps one that has ended until its parent asks for the exit code.
        return 0 if fields.state in _ENDED else fields.started
    return 0


def count_written_bytes(pid: int) -> int:
    """Return how many bytes the processes of a session have written."""
    return sum_work(pid).written


def sum_work(pid: int) -> Work:
    """Return what the processes of a session have done, as far as they still exist."""
    seconds, total = 0.0, 0
    for _, each in descendants(pid):
        seconds += each.seconds
        with suppress(OSError, ValueError, IndexError):
            total += int(Path(f"/proc/{each.pid}/io").read_text().split()[3])
    return Work(seconds, total)


def read_last_folder(pid: int) -> str:
    """Return the current folder of the process of a session that others had to start first."""
    _, last = max(descendants(pid), key=lambda row: row[0], default=(0, None))
    with suppress(OSError):
        return str(Path(f"/proc/{last.pid}/cwd").readlink()) if last else ""
    return ""


def _send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _all() -> Iterator[ProcessInfo]:
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # A process may end at any time.
            yield _read(folder)


def _read(folder: Path) -> ProcessInfo:
    text = (folder / "stat").read_bytes().decode(errors="replace")
    # The name may hold any character, including a bracket.
    name, _, rest = text.partition("(")[2].rpartition(") ")
    words = rest.split()
    seconds = (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
    numbers = (int(folder.name), int(words[1]), int(words[3]))
    return ProcessInfo(*numbers, name, words[0], seconds, int(words[19]))


def _lines(process: ProcessInfo, indent: str) -> Iterator[str]:
    state = _STATES.get(process.state, process.state)
    seconds = f"{process.seconds:.1f} s of processor time"
    yield f"{indent}{process.pid} {state}, {seconds}: {_command(process)}"
    if stack := _kernel_stack(process.pid):
        yield f"{indent}  in the kernel: {' < '.join(stack)}"


def _command(process: ProcessInfo) -> str:
    text = ""
    with suppress(OSError):
        command = Path(f"/proc/{process.pid}/cmdline").read_bytes().decode(errors="replace")
        text = " ".join(clean(command.replace("\0", " ").replace("\n", " ")).split())
    more = "..." if len(text) > _COMMAND else ""
    return f"{text[:_COMMAND]}{more}" or f"[{process.name}]"


def _kernel_stack(pid: int) -> list[str]:
    """Return the kernel functions of a process, innermost first; others than root see only one."""
    with suppress(OSError):
        lines = Path(f"/proc/{pid}/stack").read_text().splitlines()
        return [line.split()[-1].partition("+")[0] for line in lines][:_FRAMES]
    with suppress(OSError):
        return [each for each in Path(f"/proc/{pid}/wchan").read_text().split() if each != "0"]
    return []
