"""Interrupt commands: signals that end them raise ``KeyboardInterrupt``, as Ctrl-C does."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn


def handle_signals() -> None:
    """Let Ctrl-C, a closed terminal (SIGHUP) and SIGTERM interrupt this program.

    Under nohup, SIGHUP stays ignored. SIGCHLD is not: each program would seem to end with 0.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    del number, frame
    raise KeyboardInterrupt


@contextmanager
def postpone_signals(first: Callable[[], object] = lambda: None) -> Iterator[None]:
    """Raise at the end of the block what signal handlers raise meanwhile, as Ctrl-C does.

    ``first`` is called at the first one. In other threads than the main one, this changes nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    raised: list[BaseException] = []

    def call(number: int, frame: FrameType | None) -> None:
        try:
            before[number](number, frame)
        except BaseException as error:  # noqa: BLE001 - raised at the end
            raised.append(error)
            if len(raised) == 1:
                first()

    handlers = {int(each): signal.getsignal(each) for each in signal.valid_signals()}
    before = {number: old for number, old in handlers.items() if callable(old)}
    for number in before:
        signal.signal(number, call)
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
        if raised:
            raise raised[0]
