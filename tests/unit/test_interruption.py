"""A signal that ends a command: what runs is cancelled once, and cleans up."""

import asyncio
import os
import signal
from collections.abc import Iterator

import pytest

from lumicontainer.system import interruption
from lumicontainer.system.waiting import completed, task_group

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Handle the signals as a command does, and restore the handlers of this process."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    for number in SIGNALS:
        signal.signal(number, signal.default_int_handler)
    interruption.handle_signals()
    yield
    for number, old in before.items():
        signal.signal(number, old)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_inside_a_task_lets_all_tasks_clean_up(number: signal.Signals) -> None:
    done = []

    async def cleans(name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            os.kill(os.getpid(), number)
            await asyncio.sleep(0.01)
            done.append(name)

    async def is_interrupted() -> None:
        os.kill(os.getpid(), number)
        done.append("goes on to its next pause")
        await asyncio.Event().wait()

    async def work() -> None:
        async with task_group() as outer:
            outer.create_task(cleans("outer"))
            async with task_group() as inner:
                inner.create_task(cleans("inner"))
                await asyncio.sleep(0)
                inner.create_task(is_interrupted())

    handler = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt):
        completed(work())
    assert done == ["goes on to its next pause", "inner", "outer"]
    assert signal.getsignal(number) is handler


def test_a_signal_meanwhile_is_raised_at_the_end_of_the_block() -> None:
    reached = []
    with pytest.raises(KeyboardInterrupt), interruption.postponed(lambda: reached.append("first")):
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGHUP)
        reached.append("end")
    assert reached == ["first", "end"]
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGTERM)


def test_handlers_of_others_stay() -> None:
    seen = []
    signal.signal(signal.SIGTERM, lambda number, _: seen.append(number))
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    interruption_of_program = signal.getsignal(signal.SIGTERM)
    with interruption.postponed():
        os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGTERM)
    assert seen == [signal.SIGTERM]
    assert signal.getsignal(signal.SIGTERM) is interruption_of_program
