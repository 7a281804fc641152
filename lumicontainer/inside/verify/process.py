"""Run one process of a check within its time, and leave nothing of it running."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence

from ..checking import REPORT
from ..launch.program import interpreter
from . import reaper

MOST = 1 << 20
"""Bytes of output that are kept, of the end."""
STACKS = 3
"""Seconds in which a process that hangs may print its stacks, and those of other ranks theirs."""
_TICK = 0.1
"""Seconds after which a running process is looked at again."""
_LEAST_TICK = 0.005
_CHUNK = 1 << 16
_ROUNDS = 50
"""How often what is left is looked for: a process may start another one while it is ended."""
_ABORTS = 0.3
"""Seconds between the stacks that let a process go on, and those that end it."""


class Stop:
    """Hold why nothing more is to run, as a signal tells at any time; "" while all goes on."""

    __slots__ = ("why",)

    def __init__(self) -> None:
        self.why = ""


class Ended:
    """Hold how a process ended: its exit code (negative: by a signal), None where it was ended.

    ``why`` tells why it was ended before its time: "" where its time was over. ``left`` are the
    processes that could not be ended, as one that waits in a driver.
    """

    __slots__ = ("code", "left", "output", "seconds", "why")

    def __init__(
        self,
        code: int | None,
        output: str,
        *,
        seconds: float,
        left: Sequence[int] = (),
        why: str = "",
    ) -> None:
        self.code = code
        self.output = output
        self.seconds = seconds
        self.left = left
        self.why = why


def run(
    command: Sequence[str],
    env: Mapping[str, str],
    *,
    seconds: float,
    stop: Callable[[], str] = str,
    at_once: Callable[[], str] = str,
    files: bool = False,
) -> Ended:
    """Run a command to its end, or for ``seconds``; its output is kept, the end of it if long.

    ``env`` holds REPORT, which names a file of this process alone: what it starts is known by it.
    ``stop`` is asked time and again; what it returns is the reason for which the process is to be
    ended. ``at_once`` is so too, and there is no time for stacks then. With ``files`` it gets the
    open files of this process, as those that a launcher hands on for MPI.
    """
    begun = time.monotonic()
    process, lifeline = _started(command, env, files=files)
    output = _Output(process)
    why: str | None = None
    try:
        while why is None and process.poll() is None:
            output.read(_TICK)
            over = time.monotonic() - begun > seconds
            why = at_once() or stop() or ("" if over else None)
        code = process.poll()
        told = "" if code is not None or at_once() else _asked(process, output, at_once)
    finally:
        os.close(lifeline)
        left = end(process, f"{REPORT}={env[REPORT]}".encode(), output)
    text = output.text() + told
    taken = time.monotonic() - begun
    return Ended(code, text, seconds=taken, left=left, why=(why or "") if code is None else "")


def _started(
    command: Sequence[str], env: Mapping[str, str], *, files: bool
) -> tuple[subprocess.Popen[bytes], int]:
    """Start a command below its guard; return it, and what the guard ends it by once closed."""
    kept, lifeline = os.pipe()
    os.set_inheritable(kept, True)
    try:
        process = subprocess.Popen(
            [
                interpreter(),
                "-I",
                "-S",
                "-B",
                os.path.abspath(reaper.__file__),
                str(kept),
                *command,
            ],
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


class _Output:
    """Keep the end of what a process writes, in memory: a full disk is not for it to suffer."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        self._process = process
        self._stream = process.stdout
        self._poll = select.poll()
        self._poll.register(self._stream, select.POLLIN)
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self._open = True

    def read(self, seconds: float) -> None:
        """Take what comes first within ``seconds``; return at once where there is something."""
        if not self._open:
            try:
                self._process.wait(seconds)
            except subprocess.TimeoutExpired:
                return
        elif self._poll.poll(seconds * 1000):
            chunk = os.read(self._stream.fileno(), _CHUNK)
            self._open = bool(chunk)
            if not chunk:
                self._stream.close()
            self._chunks.append(chunk)
            self._size += len(chunk)
            while self._size - len(self._chunks[0]) > MOST:
                self._size -= len(self._chunks.popleft())

    def rest(self) -> None:
        """Take what is there without waiting, of a process that has ended."""
        while self._open and self._poll.poll(0):
            self.read(0)
        self._stream.close()

    def text(self) -> str:
        """Return what was kept; bytes that are no UTF-8 are replaced."""
        return b"".join(self._chunks)[-MOST:].decode("utf-8", "replace")


def _asked(process: subprocess.Popen[bytes], output: _Output, at_once: Callable[[], str]) -> str:
    """Ask all processes below for their stacks, and wait for these; return what runs."""
    end = time.monotonic() + STACKS
    running = reaper.below(process.pid)
    told = "".join(f"  {line}\n" for line in map(_described, running) if line)
    deaf = []
    for pid in filter(_is_python, running):
        if _catches(pid, signal.SIGUSR1):
            _send(pid, signal.SIGUSR1)
        elif _catches(pid, signal.SIGABRT):
            deaf.append(pid)
    aborts = time.monotonic() + _ABORTS
    while time.monotonic() < end and process.poll() is None and not at_once():
        output.read(_TICK)
        if deaf and time.monotonic() > aborts:
            for pid in deaf:
                _send(pid, signal.SIGABRT)
            deaf = []
    return f"\nwhat ran on {os.uname().nodename} when it was ended:\n{told}"


def _described(pid: int) -> str:
    """Return a line on a process: its words, and where in the kernel it waits; "" if it ended."""
    words = _text(pid, "cmdline").replace("\0", " ").strip()
    waits = _text(pid, "wchan").strip("0\n")
    return f"{pid} {words[:200]}{f' (waits in {waits})' if waits else ''}" if words else ""


def _is_python(pid: int) -> bool:
    return _text(pid, "comm").startswith("python")


def _catches(pid: int, number: int) -> bool:
    """Tell whether a process has a handler for a signal, which would end it otherwise."""
    for line in _text(pid, "status").splitlines():
        name, _, value = line.partition(":")
        if name == "SigCgt":
            return bool(int(value, 16) >> (number - 1) & 1)
    return False


def _text(pid: int, name: str) -> str:
    try:
        with open(f"/proc/{pid}/{name}", encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""


def _send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except OSError:  # it has ended meanwhile, or is another user's
        return


def end(process: subprocess.Popen[bytes], mark: bytes, output: _Output) -> list[int]:
    """Wait until the guard, which is ``process``, has ended all; return what is left.

    Where somebody killed the guard, what it kept is found by ``mark`` in its environment.
    """
    patience = time.monotonic() + 2 * reaper.PATIENCE
    while process.poll() is None and time.monotonic() < patience:
        output.read(_LEAST_TICK)
    if process.poll() is None:
        process.kill()
    left: list[int] = []
    for _ in range(_ROUNDS):
        left = list(marked(mark))
        for pid in left:
            _send(pid, signal.SIGKILL)
        if not left:
            break
        time.sleep(0.02)
    try:
        process.wait(1)
    except subprocess.TimeoutExpired:
        left.append(process.pid)
    output.rest()
    return left


def marked(mark: bytes) -> Iterator[int]:
    """Yield the processes whose environment holds ``mark``; those that ended have none."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/environ", "rb") as stream:
                if mark in stream.read().split(b"\0"):
                    yield int(name)
        except OSError:  # it has ended meanwhile, or is another user's
            continue
