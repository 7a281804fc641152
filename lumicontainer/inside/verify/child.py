"""Run one process of a check within its time, and leave nothing of it running."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time

from ..checking import REPORT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

MOST = 1 << 20
"""Bytes of output that are kept, of the end."""
STACKS = 3
"""Seconds in which a process that hangs may print its stacks."""
_ROUNDS = 50
"""How often what is left is looked for: a process may start another one while it is ended."""


class Ended:
    """Hold how a process ended: its exit code (negative: by a signal), None where its time ran out.

    ``left`` are the processes that could not be ended, as one that waits in a driver.
    """

    __slots__ = ("code", "left", "output", "seconds")

    def __init__(
        self, code: int | None, output: str, *, seconds: float, left: Sequence[int] = ()
    ) -> None:
        self.code = code
        self.output = output
        self.seconds = seconds
        self.left = left


def run(
    command: Sequence[str], env: Mapping[str, str], *, seconds: float, stacks: bool = False
) -> Ended:
    """Run a command to its end, or for ``seconds``; its output is kept, the end of it if long.

    ``env`` holds REPORT, which names a file of this process alone: what it starts is known by it.
    ``stacks`` says that SIGUSR1 makes it print where it is.
    """
    begun = time.monotonic()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        code: int | None = None
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            if stacks:
                _ask(process)
        finally:
            left = end(process, f"{REPORT}={env[REPORT]}".encode())
        size = output.seek(0, os.SEEK_END)
        output.seek(max(0, size - MOST))
        text = output.read().decode("utf-8", "replace")
    return Ended(code, text, seconds=time.monotonic() - begun, left=left)


def _ask(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGUSR1)
    try:
        process.wait(STACKS)
    except subprocess.TimeoutExpired:
        return


def end(process: subprocess.Popen[bytes], mark: bytes) -> list[int]:
    """Kill a process and all that it started, in whatever session; return what is left."""
    if process.poll() is None:
        process.kill()
    left: list[int] = []
    for _ in range(_ROUNDS):
        left = list(marked(mark))
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        if not left:
            break
        time.sleep(0.02)
    try:
        process.wait(1)
    except subprocess.TimeoutExpired:
        left.append(process.pid)
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
