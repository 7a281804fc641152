"""Limit the CPU time of a block, whatever else the machine does."""

import contextlib
import signal
from collections.abc import Iterator


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raise ``AssertionError`` in a block that takes more CPU seconds of this process."""

    def fail(*_: object) -> None:
        raise AssertionError(f"it took more than {seconds} s of CPU time")

    former = signal.signal(signal.SIGPROF, fail)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, former)
