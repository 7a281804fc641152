"""Give a program its input and take its output, within the limits of a helper."""

import math
import os
import selectors
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import IO

from lumicontainer.system import process_tree
from lumicontainer.system.budget import Helper, LimitError
from lumicontainer.system.programs.idle_limit import IdleLimit
from lumicontainer.system.programs.write_limit import WriteLimit

_PIECE = 1 << 16
_WATCH = 1.0
DRAIN = 5.0
"""Seconds for which nothing may come after a program has ended, while others hold its output."""
LONGEST_DRAIN = 60.0
"""Seconds for which they may print then."""


def communicate(
    child: subprocess.Popen[bytes],
    stdin: bytes,
    limits: Helper,
    watch: Callable[[], None] | None = None,
) -> list[bytes]:
    """Return what a program prints to the pipes of its stdout and stderr, until both are closed.

    When a program with a limit of time has ended, and others of its session still hold them, those
    are killed soon. Meanwhile calls ``watch`` every second. Raises what that raises, and
    ``LimitError`` if the program exceeds its limits; it still runs then.
    """
    end, gone = time.monotonic() + limits.seconds, math.inf
    printed = {each: bytearray() for each in (child.stdout, child.stderr) if each}
    written, idle = WriteLimit(child.pid, limits.written), IdleLimit(child.pid, limits.idle)
    with selectors.DefaultSelector() as selector:
        for pipe in printed:
            selector.register(pipe, selectors.EVENT_READ, partial(_take, pipe, printed, limits))
        if child.stdin:
            os.set_blocking(child.stdin.fileno(), False)
            give = partial(_give, child.stdin, [memoryview(stdin)])
            selector.register(child.stdin, selectors.EVENT_WRITE, give)
        while selector.get_map():
            if watch:
                watch()
            written.require()
            idle.require()
            ready = selector.select(_seconds_left(end, limits))
            for key, _ in ready:
                pipe = key.data()
                if pipe:
                    selector.unregister(pipe)
                    pipe.close()
            if math.isfinite(limits.seconds) and _has_ended(child):
                gone = min(gone, time.monotonic())
            if time.monotonic() > gone + (LONGEST_DRAIN if ready else DRAIN):
                process_tree.kill(child.pid)
                break
    wait_for(child, limits, end)
    return [bytes(each) for each in printed.values()]


def _has_ended(child: subprocess.Popen[bytes]) -> bool:
    """Return whether a program has ended; nobody else gets its process id meanwhile."""
    return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _give(pipe: IO[bytes], left: list[memoryview]) -> IO[bytes] | None:
    """Write some of the input; return the pipe at the end."""
    try:
        left[0] = left[0][os.write(pipe.fileno(), left[0][:_PIECE]) :]
    except BlockingIOError:
        return None
    except BrokenPipeError:  # The program reads no more, and its output says why.
        return pipe
    return None if left[0] else pipe


def _take(
    pipe: IO[bytes], printed: Mapping[IO[bytes], bytearray], limits: Helper
) -> IO[bytes] | None:
    """Read some of the output; return the pipe at the end."""
    piece = os.read(pipe.fileno(), _PIECE)
    printed[pipe].extend(piece)
    if sum(map(len, printed.values())) > limits.most:
        raise LimitError(f"it printed more than {limits.most} bytes")
    return None if piece else pipe


def wait_for(child: subprocess.Popen[bytes], limits: Helper, end: float | None = None) -> int:
    """Return the exit status of a program; raise ``LimitError`` if it exceeds its limits."""
    end = end or time.monotonic() + limits.seconds
    written = WriteLimit(child.pid, limits.written)
    while True:
        with suppress(subprocess.TimeoutExpired):
            return child.wait(_seconds_left(end, limits))
        written.require()


def _seconds_left(end: float, limits: Helper) -> float:
    """Return for how long the system may be asked to wait."""
    left = end - time.monotonic()
    if left <= 0:
        raise LimitError(f"it did not end within {limits.seconds:g} s")
    return min(left, _WATCH)
