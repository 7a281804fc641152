"""Wait for other builds and for the tasks of this one."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, ParamSpec, TypeAlias, TypeVar

from lumicontainer.system import flock
from lumicontainer.system.interruption import postpone_signals
from lumicontainer.system.terminal.progress import Progress, Task

T = TypeVar("T")
P = ParamSpec("P")
Cancelling: TypeAlias = Callable[[Callable[[], None]], contextlib.AbstractContextManager[None]]
POLL = 0.2
"""Seconds between two attempts to take a file lock that another build holds."""


def complete(work: Coroutine[Any, Any, T], progress: Progress | None = None) -> T:
    """Run a coroutine to its end, also in a notebook, whose loop runs in this thread already.

    What a signal handler raises cancels it, and is raised at its end: ``KeyboardInterrupt``,
    raised inside an event loop, can leave tasks that never end. Later signals are ignored. What
    the receiver of its ``progress`` raises cancels it too.
    """
    cancelling = progress.cancelling if progress else lambda _: contextlib.nullcontext()
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _run(work, cancelling)
    return _run_in_a_thread(work, cancelling)


def _run(work: Coroutine[Any, Any, T], cancelling: Cancelling) -> T:
    # With a factory, it leaves the event loop of the caller's thread in its place.
    runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
    loop = runner.get_loop()
    task = loop.create_task(work)

    def cancel() -> None:
        _cancel(loop, task)

    with postpone_signals(cancel), cancelling(cancel), runner:
        return loop.run_until_complete(task)


def _run_in_a_thread(work: Coroutine[Any, Any, T], cancelling: Cancelling) -> T:
    begun: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any] | None]] = Future()

    async def announced() -> T:
        begun.set_result((asyncio.get_running_loop(), asyncio.current_task()))
        return await work

    def cancel() -> None:
        begun.add_done_callback(lambda known: _cancel(*known.result()))

    with postpone_signals(cancel), cancelling(cancel), ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, announced()).result()


def _cancel(loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any] | None) -> None:
    """Cancel a task from outside its loop."""
    assert task is not None
    with contextlib.suppress(RuntimeError):  # It has just ended, and its loop is closed.
        loop.call_soon_threadsafe(task.cancel)


async def to_its_end(work: Awaitable[T]) -> T:
    """Await something that is not cancelled; if this is, raise ``CancelledError`` afterwards."""
    running, cancelled = asyncio.ensure_future(work), None
    while not running.done():
        try:
            await asyncio.wait([running])
        except asyncio.CancelledError as error:
            cancelled = error
    result = running.result()
    if cancelled:
        raise cancelled
    return result


async def run_uninterrupted(work: Callable[P, T], *values: P.args, **named: P.kwargs) -> T:
    """Run a function in a thread; if interrupted, wait for its end, because a lock covers it."""
    return await to_its_end(asyncio.to_thread(work, *values, **named))


@contextlib.asynccontextmanager
async def in_background(work: Coroutine[Any, Any, T]) -> AsyncIterator[asyncio.Task[T]]:
    """Run a coroutine while the block runs; at the end, cancel it and wait for its end."""
    running = asyncio.create_task(work)
    try:
        yield running
    finally:
        running.cancel()
        await to_its_end(asyncio.gather(running, return_exceptions=True))


@contextlib.asynccontextmanager
async def wait_for_lock(path: Path, task: Task) -> AsyncIterator[str]:
    """Hold a file lock; show its holder while waiting, and yield the last holder, if any."""
    other = ""
    while (held := flock.exclusive(path)) is None:
        if who := flock.holder(path):
            other = who.partition(", since ")[0]
            task.waiting(f"waiting for {who}")
        await asyncio.sleep(POLL)
    task.waiting("")
    try:
        yield other
    finally:
        os.close(held)


@contextlib.asynccontextmanager
async def task_group() -> AsyncIterator[asyncio.TaskGroup]:
    """Run tasks concurrently; if one fails, cancel the others and raise its own error."""
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
