"""Interrupt commands: signals that end them raise ``KeyboardInterrupt``, as Ctrl-C does."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def handle_signals() -> None:
    """Let a closed terminal (SIGHUP) and SIGTERM interrupt this program.

    Under nohup, SIGHUP stays ignored. SIGCHLD is not: each program would seem to end with 0.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    del number, frame
    raise KeyboardInterrupt


@contextmanager
def postponed(first: Callable[[], object] = lambda: None) -> Iterator[None]:
    """Raise ``KeyboardInterrupt`` at the end of the block, for signals that come meanwhile.

    ``first`` is called at the first one. In other threads than the main one, this changes nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came = False

    def note(number: int, frame: FrameType | None) -> None:
        del number, frame
        nonlocal came
        if not came:
            came = True
            first()

    raises = (signal.default_int_handler, _interrupt)
    before = {each: old for each in _SIGNALS if (old := signal.getsignal(each)) in raises}
    for number in before:
        signal.signal(number, note)
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
        if came:
            raise KeyboardInterrupt
