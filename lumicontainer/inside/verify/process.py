"""Run one process of a check with a time limit, and end everything that it started."""

from __future__ import annotations

import contextlib
import glob
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Union

from ..checking import REPORT
from ..launch.program import interpreter
from . import python_check, reaper
from .forks import Forked
from .resources import Env

MOST = 1 << 20  # bytes of output to keep, from its end
STACKS = 3  # seconds in which hanging processes, on all ranks, may print their stacks
_TICK = 0.1  # seconds between two looks at a running process
_LEAST_TICK = 0.005
_LAST = 1  # seconds for the last output; a process that waits in a driver keeps it open
_ROUNDS = 50  # how often remaining processes are killed: they may start others meanwhile
# Seconds between the signal that prints stacks and the one that also ends the process.
_ABORTS = 1


Process = Union[subprocess.Popen[bytes], Forked]
Start = Callable[[Sequence[str], Env], tuple[Process, int]]


@dataclass
class Stop:
    """Why all checks must end, set by a signal; "" while they run."""

    why: str = ""


class Ended(NamedTuple):
    """How a process ended: its exit code (negative: a signal); None if lumi-verify ended it.

    ``why`` is the reason for that, "" after the time limit.
    """

    code: int | None
    output: str
    seconds: float
    why: str = ""


def run(
    command: Sequence[str],
    env: Env,
    *,
    seconds: float,
    start: Start,
    stop: Callable[[], str] = str,
    at_once: Callable[[], str] = str,
) -> Ended:
    """Run a command, as ``start`` does, to its end or for ``seconds``; keep its output's end.

    ``env`` holds REPORT, a file of this process only, which identifies its descendants. ``stop``
    is called repeatedly: if it returns a reason, the process is ended. ``at_once`` does the same,
    without time for stacks.
    """
    begun = time.monotonic()
    process, lifeline = start(command, env)
    output = _Output(process)
    why: str | None = None
    try:
        while why is None and process.poll() is None:
            output.wait(_TICK)
            over = time.monotonic() - begun > seconds
            why = at_once() or stop() or ("" if over else None)
        code = process.poll()
        ends = code is not None or at_once()
        stacks = "" if ends else _stacks(process, output, at_once, env[REPORT])
    finally:
        os.close(lifeline)
        end(process, f"{REPORT}={env[REPORT]}".encode(), output)
    text = output.text() + stacks
    taken = time.monotonic() - begun
    return Ended(code, text, seconds=taken, why=(why or "") if code is None else "")


def start(
    command: Sequence[str], env: Env, *, folder: str, files: bool = False
) -> tuple[Process, int]:
    """Start a command below the reaper; return it, and the descriptor whose closing ends it.

    ``folder`` is removed if lumi-verify dies. With ``files`` the command inherits all open files,
    such as an MPI launcher's.
    """
    kept, lifeline = os.pipe()
    os.set_inheritable(kept, True)
    above = [interpreter(), "-ISB", os.path.abspath(reaper.__file__), str(kept), folder]
    try:
        process = subprocess.Popen(
            [*above, *command],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
            start_new_session=True,
            close_fds=not files,
            pass_fds=() if files else (kept,),
        )
    except BaseException:
        os.close(lifeline)
        raise
    finally:
        os.close(kept)
    return process, lifeline


class _Output(threading.Thread):
    """Keep the end of a process's output, in memory because the disk may be full."""

    def __init__(self, process: Process) -> None:
        super().__init__(daemon=True)
        self._process = process
        self._kept = bytearray()
        self.start()

    def run(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as stream:
            while chunk := stream.read(1 << 16):
                self._kept += chunk
                del self._kept[:-MOST]

    def wait(self, seconds: float) -> None:
        """Wait until the process has closed its output, or else ended, or for ``seconds``."""
        if self.is_alive():
            self.join(seconds)
        else:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)

    def text(self) -> str:
        """Return the kept output; invalid UTF-8 is replaced."""
        self.join(_LAST)
        return bytes(self._kept).decode("utf-8", "replace")


def _stacks(process: Process, output: _Output, at_once: Callable[[], str], report: str) -> str:
    """Let all descendants write their stacks; return these, and a list of what runs."""
    end = time.monotonic() + STACKS
    running = reaper.below(process.pid)
    lines = "".join(f"  {line}\n" for line in map(_described, running) if line)
    pythons = [pid for pid in running if _is_python(pid)]
    _send_each(pythons, signal.SIGUSR1)
    aborts = time.monotonic() + _ABORTS
    while time.monotonic() < end and process.poll() is None and not at_once():
        output.wait(_TICK)
        if pythons and time.monotonic() > aborts:
            _send_each([pid for pid in pythons if not _has_written(pid, report)], signal.SIGABRT)
            pythons = []
    written = _read_stacks(report)
    return f"{written}\nprocesses on {os.uname().nodename} at that time:\n{lines}"


def _is_python(pid: int) -> bool:
    # Programs rename themselves, such as torchrun and the workers of PyTorch's DataLoader.
    names = [_text(pid, "comm")]
    with contextlib.suppress(OSError):  # it has ended, or is another user's
        names.append(os.path.basename(os.readlink(f"/proc/{pid}/exe")))
    return any(name.startswith("python") for name in names)


def _has_written(pid: int, report: str) -> bool:
    """Return whether a process has written its stacks; a full disk keeps the file empty."""
    try:
        return os.path.getsize(python_check.stacks(report, pid)) > 0
    except OSError:
        return False


def _read_stacks(report: str) -> str:
    """Return the stacks that the processes of a check in Python have written, at most MOST."""
    text = ""
    for path in sorted(glob.glob(python_check.stacks(glob.escape(report), "*"))):
        with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as stream:
            text += stream.read(MOST - len(text))
    return f"\n{text}" if text else ""


def _described(pid: int) -> str:
    words = _text(pid, "cmdline").replace("\0", " ").strip()
    waits = _text(pid, "wchan").strip("0\n")
    return f"{pid} {words[:200]}{f' (waits in {waits})' if waits else ''}" if words else ""


def _catches(pid: int, number: int) -> bool:
    """Return whether a process has a handler for a signal."""
    caught = re.search(r"(?m)^SigCgt:\s*(\w+)$", _text(pid, "status"))
    return caught is not None and bool(int(caught[1], 16) >> (number - 1) & 1)


def _bytes(pid: int, name: str) -> bytes:
    """Return a file of a process; empty if it has ended, or is another user's."""
    try:
        with open(f"/proc/{pid}/{name}", "rb") as stream:
            return stream.read()
    except OSError:
        return b""


def _text(pid: int, name: str) -> str:
    return _bytes(pid, name).decode(errors="replace")


def _send(pid: int, number: int) -> None:
    with contextlib.suppress(OSError):  # it has ended, or is another user's
        os.kill(pid, number)


def _send_each(pids: Sequence[int], number: int) -> None:
    """Send a signal to the processes that have a handler for it; it ends others."""
    for pid in pids:
        if _catches(pid, number):
            _send(pid, number)


def end(process: Process, mark: bytes, output: _Output) -> None:
    """Wait until the reaper ``process`` has killed all.

    If the reaper was killed, ``mark`` in their environment identifies its processes.
    """
    patience = time.monotonic() + 2 * reaper.PATIENCE
    while process.poll() is None and time.monotonic() < patience:
        output.wait(_LEAST_TICK)
    if process.poll() is None:
        process.kill()
    for _ in range(_ROUNDS):
        left = list(_marked(mark))
        for pid in left:
            _send(pid, signal.SIGKILL)
        if not left:
            break
        time.sleep(0.02)
    with contextlib.suppress(subprocess.TimeoutExpired):  # it waits in a driver
        process.wait(1)


def _marked(mark: bytes) -> Iterator[int]:
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        if mark in _bytes(pid, "environ").split(b"\0"):
            yield pid
