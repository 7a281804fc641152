"""Wait for other builds and for tasks of this one."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import ParamSpec, TypeVar

from lumicontainer.system import flock
from lumicontainer.system.terminal.progress import Task

T = TypeVar("T")
P = ParamSpec("P")
POLL = 0.2
"""Seconds between two attempts to take a file lock that another build holds."""


async def to_the_end(work: Callable[P, T], *values: P.args, **named: P.kwargs) -> T:
    """Do work in a thread; an interruption waits for its end, because a file lock covers it."""
    # Not a task: at SIGTERM the loop ends all tasks, this one too.
    running = asyncio.get_running_loop().run_in_executor(None, partial(work, *values, **named))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise


@contextlib.asynccontextmanager
async def alone(path: Path, task: Task) -> AsyncIterator[str]:
    """Hold a file lock; show who holds it meanwhile, and yield the last of them, if any."""
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
async def together() -> AsyncIterator[asyncio.TaskGroup]:
    """Run tasks side by side; where one fails, end the others and raise its error itself."""
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
