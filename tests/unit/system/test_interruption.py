"""A signal that ends a command: what runs is cancelled once, and cleans up."""

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from lumicontainer.system import interruption
from lumicontainer.system.files.temporary import plain_folder
from lumicontainer.system.terminal.forms import Callback, Event
from lumicontainer.system.terminal.progress import Progress
from lumicontainer.system.waiting import complete, task_group

from ...programs import run

Call = Callable[..., None]
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


def in_a_notebook(work: Coroutine[Any, Any, None], progress: Progress | None = None) -> None:
    """Call as a notebook does, whose loop runs in the thread of the cells."""

    async def cell() -> None:
        complete(work, progress)

    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(cell())
    finally:
        loop.close()


@pytest.mark.parametrize("call", [complete, in_a_notebook])
@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_inside_a_task_lets_all_tasks_clean_up(number: signal.Signals, call: Call) -> None:
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
        call(work())
    assert done == ["goes on to its next pause", "inner", "outer"]
    assert signal.getsignal(number) is handler


@pytest.mark.parametrize("call", [complete, in_a_notebook])
def test_what_a_handler_of_the_caller_raises_lets_the_work_clean_up(call: Call) -> None:
    done = []

    def late(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise ZeroDivisionError

    async def work() -> None:
        try:
            os.kill(os.getpid(), signal.SIGALRM)
            await asyncio.wait_for(asyncio.Event().wait(), 120)
        except asyncio.CancelledError:
            os.kill(os.getpid(), signal.SIGALRM)
            await asyncio.sleep(0.1)
            done.append("cleaned up")
            raise

    before = signal.signal(signal.SIGALRM, late)
    try:
        with pytest.raises(ZeroDivisionError):
            call(work())
    finally:
        signal.signal(signal.SIGALRM, before)
    assert done == ["cleaned up"]


@pytest.mark.parametrize("call", [complete, in_a_notebook])
def test_what_a_receiver_of_events_raises_ends_steps_that_are_silent(
    call: Call, capfd: pytest.CaptureFixture[str]
) -> None:
    ended = []

    def stop(event: Event) -> None:
        if event.event == "alive":
            raise ZeroDivisionError

    async def silent(name: str) -> None:
        with progress.step(name):
            try:
                await asyncio.wait_for(asyncio.Event().wait(), 120)
            except asyncio.CancelledError:
                ended.append(name)
                raise

    async def work() -> None:
        async with task_group() as group:
            group.create_task(silent("one"))
            group.create_task(silent("other"))

    with pytest.raises(ZeroDivisionError), Progress(Callback(stop), heartbeat=0.0) as progress:
        call(work(), progress)
    assert sorted(ended) == ["one", "other"]
    assert capfd.readouterr() == ("", "")


def test_the_event_loop_of_the_caller_stays() -> None:
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        complete(asyncio.sleep(0))
        assert asyncio.get_event_loop() is loop
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def test_a_signal_meanwhile_is_raised_at_the_end_of_the_block() -> None:
    reached = []
    with (
        pytest.raises(KeyboardInterrupt),
        interruption.postpone_signals(lambda: reached.append("first")),
    ):
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
    with interruption.postpone_signals():
        os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGTERM)
    assert seen == [signal.SIGTERM]
    assert signal.getsignal(signal.SIGTERM) is interruption_of_program


def test_a_signal_at_the_end_leaves_no_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remove = shutil.rmtree

    def remove_later(folder: Path, **options: bool) -> None:
        signal.raise_signal(signal.SIGTERM)
        remove(folder, **options)

    monkeypatch.setattr(shutil, "rmtree", remove_later)
    with pytest.raises(KeyboardInterrupt), plain_folder("mine", tmp_path) as folder:
        (folder / "file").touch()
    assert [path.name for path in tmp_path.iterdir()] == [".guard"]


@pytest.mark.slow
@pytest.mark.parametrize("number", SIGNALS)
def test_a_command_that_has_not_begun_ends_without_a_word(
    tmp_path: Path, number: signal.Signals
) -> None:
    """Imports take seconds on a busy shared file system; the signal comes during one of them."""
    (tmp_path / "argparse.py").write_text(f"import os; os.kill(os.getpid(), {number:d})\n")
    done = run([sys.executable, "-m", "lumicontainer"], env={"PYTHONPATH": str(tmp_path)})
    assert (done.returncode, done.stdout, done.stderr) == (-number, "", "")
