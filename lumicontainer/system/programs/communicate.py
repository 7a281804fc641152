"""Give a program its input and take its output, within the limits of a helper."""

import os
import selectors
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import IO

from lumicontainer.system.budget import Helper, LimitError

_PIECE = 1 << 16
_WATCH = 1.0
_LONGEST = 3600
"""Seconds for which the system can be asked to wait; a limit may be infinite."""


def communicate(
    child: subprocess.Popen[bytes],
    stdin: bytes,
    limits: Helper,
    watch: Callable[[], None] | None = None,
) -> list[bytes]:
    """Return what a program prints to the pipes of its stdout and stderr, until both are closed.

    Meanwhile calls ``watch`` every second. Raises what that raises, and ``LimitError`` if the
    program exceeds its limits; it still runs then.
    """
    longest = _WATCH if watch else _LONGEST
    end = time.monotonic() + limits.seconds
    printed = {each: bytearray() for each in (child.stdout, child.stderr) if each}
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
            for key, _ in selector.select(min(longest, _seconds_left(end, limits))):
                pipe = key.data()
                if pipe:
                    selector.unregister(pipe)
                    pipe.close()
    wait_for(child, limits, end)
    return [bytes(each) for each in printed.values()]


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
    """Return the exit status of a program; raise ``LimitError`` if it does not end in time."""
    end = end or time.monotonic() + limits.seconds
    while True:
        with suppress(subprocess.TimeoutExpired):
            return child.wait(_seconds_left(end, limits))


def _seconds_left(end: float, limits: Helper) -> float:
    left = end - time.monotonic()
    if left <= 0:
        raise LimitError(f"it did not end within {limits.seconds:g} s")
    return min(left, _LONGEST)
