"""What the processes that a program started do at this moment, and their end."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from lumicontainer.system.terminal.text import clean

_COMMAND = 160
"""Characters of a command that are shown."""
_FRAMES = 8
_STATES = {
    "R": "running",
    "S": "sleeping",
    "D": "waiting for a device",
    "T": "stopped",
    "Z": "ended",
}


class Process(NamedTuple):
    """Hold a process as /proc tells of it (proc_pid_stat(5))."""

    pid: int
    parent: int
    session: int
    name: str
    state: str
    seconds: float
    """Of processor time."""
    begun: int
    """When it began, in ticks since the machine did: with the number it names one process."""


def below(pid: int) -> Iterator[tuple[int, Process]]:
    """Yield the processes of a session and all that they started, with depth, parents first.

    ``pid`` leads the session, and may have ended before the others.
    """
    everyone = {each.pid: each for each in _all()}
    children: dict[int, list[Process]] = {}
    for each in everyone.values():
        children.setdefault(each.parent, []).append(each)
    own = [each for each in everyone.values() if each.session == pid]
    inner = {each.pid for each in own}
    waiting = sorted(((0, each) for each in own if each.parent not in inner), reverse=True)
    while waiting:
        depth, each = waiting.pop()
        yield depth, each
        started = sorted(children.get(each.pid, ()), reverse=True)
        waiting += [(depth + 1, child) for child in started]


def report(pid: int) -> str:
    """Return in lines what the processes of a session do: command, state and stack."""
    return "\n".join(line for depth, each in below(pid) for line in _told(each, "  " * depth))


def kill(pid: int) -> None:
    """Kill the processes of a session and all that they started, whatever signals they refuse.

    What is started meanwhile is killed in turn: each is stopped before its children are looked for.
    """
    known: set[tuple[int, int]] = set()
    while found := {(each.pid, each.begun) for _, each in below(pid)} - known:
        for number, _ in found:
            _send(number, signal.SIGSTOP)
        known |= found
    # The deepest last: a parent that lives may start another child in the place of one that ended.
    for number, _ in known:
        _send(number, signal.SIGKILL)


def written(pid: int) -> int:
    """Return the bytes that the processes of a session have written until now."""
    total = 0
    for _, each in below(pid):
        with suppress(OSError, ValueError, IndexError):
            total += int(Path(f"/proc/{each.pid}/io").read_text().split()[3])
    return total


def _send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _all() -> Iterator[Process]:
    for name in os.listdir("/proc"):  # noqa: PTH208 - names alone
        if name.isdecimal() and (found := _read(int(name))):
            yield found


def _read(pid: int) -> Process | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes().decode(errors="replace")
    except OSError:
        return None  # It ended meanwhile.
    # The name may hold anything, a bracket too.
    name, _, rest = text.partition("(")[2].rpartition(") ")
    words = rest.split()
    ticks = int(words[11]) + int(words[12])
    seconds = ticks / os.sysconf("SC_CLK_TCK")
    parent, session, begun = int(words[1]), int(words[3]), int(words[19])
    return Process(pid, parent, session, name, words[0], seconds, begun)


def _told(process: Process, indent: str) -> Iterator[str]:
    state = _STATES.get(process.state, process.state)
    seconds = f"{process.seconds:.1f} s of processor time"
    yield f"{indent}{process.pid} {state}, {seconds}: {_command(process)}"
    stack = _kernel_stack(process.pid)
    if stack:
        yield f"{indent}  in the kernel: {' < '.join(stack)}"


def _command(process: Process) -> str:
    with suppress(OSError):
        words = Path(f"/proc/{process.pid}/cmdline").read_bytes().split(b"\0")
        command = " ".join(word.decode(errors="replace") for word in words).strip()
        if command:
            shown = " ".join(clean(command.replace("\n", " ")).split())
            return shown if len(shown) <= _COMMAND else f"{shown[:_COMMAND]}..."
    return f"[{process.name}]"


def _kernel_stack(pid: int) -> list[str]:
    """Return the kernel's functions that a process is in, the innermost first.

    Only root may read them all; others are told the innermost.
    """
    with suppress(OSError):
        lines = Path(f"/proc/{pid}/stack").read_text().splitlines()
        return [line.split()[-1].partition("+")[0] for line in lines][:_FRAMES]
    with suppress(OSError):
        function = Path(f"/proc/{pid}/wchan").read_text()
        return [function] if function not in ("", "0") else []
    return []
