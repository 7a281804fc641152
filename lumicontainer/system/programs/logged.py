"""Run a program while its output is logged; end it if it is silent, slow, or writes too much."""

import asyncio
import contextlib
import math
import os
import signal
import time
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import IO, Any

from lumicontainer.system import budget, process_tree
from lumicontainer.system.budget import Helper, LimitError
from lumicontainer.system.process import GRACE, bound, limited, starting
from lumicontainer.system.programs.output_log import OutputLog
from lumicontainer.system.programs.patience import Patience
from lumicontainer.system.programs.write_limit import WriteLimit
from lumicontainer.system.terminal.masking import masked
from lumicontainer.system.waiting import task_group, to_its_end

_WATCH = 1.0


class SilentError(Exception):
    """A program printed nothing for too long; the text describes its processes."""


class OverdueError(Exception):
    """A program did not end in time; the text describes its processes."""


class ExcessError(Exception):
    """A program wrote too much; the text describes its processes."""


async def run_logged(  # noqa: PLR0913 - callers pass them by name
    command: Sequence[str],
    log: IO[str],
    *,
    env: Mapping[str, str] | None = None,
    on_line: Callable[[str], None] = lambda _: None,
    stdin: Awaitable[bytes] | None = None,
    result: IO[bytes] | None = None,
    limits: Helper = budget.REPORT,
    patience: Patience | None = None,
    on_cut: Callable[[], None] = lambda: None,
) -> int:
    """Run a program and write its cleaned output to ``log``; return its exit status.

    ``stdin`` is read by the program, which can start before it is known. See ``OutputLog`` for
    ``on_line`` and ``on_cut``. ``result`` gets stdout unchanged. An interruption ends the program
    and its children.

    Raises ``OverLimitError`` and kills them if the result or the time exceeds its limit,
    ``SilentError``, ``OverdueError`` or ``ExcessError`` if ``patience`` ends.
    """
    patience = patience or Patience()
    with starting(command):
        child = await _start(
            asyncio.create_subprocess_exec(
                *bound(command),
                env=env,
                stdin=PIPE if stdin else DEVNULL,
                stdout=PIPE,
                stderr=PIPE if result else STDOUT,
                start_new_session=True,
            )
        )
    try:
        if stdin:
            await _give(child, stdin)
        with limited(command, limits):
            async with _ending_within(limits), task_group() as group:
                watching = group.create_task(_limit_writing(child.pid, patience))
                if result and child.stdout:
                    group.create_task(_copy(child.stdout, result, limits))
                await _follow(_chunks(child, patience), OutputLog(log, on_line, on_cut))
                await child.wait()
                watching.cancel()
            return await child.wait()
    finally:
        await to_its_end(_end(child))


@contextlib.asynccontextmanager
async def _ending_within(limits: Helper) -> AsyncIterator[None]:
    """Raise ``LimitError`` in a block that takes too long."""
    try:
        async with asyncio.timeout(limits.seconds) as timeout:
            yield
    except TimeoutError:
        if not timeout.expired():
            raise
        raise LimitError(f"it did not end within {limits.seconds:g} s") from None


async def _start(starting: Coroutine[Any, Any, Process]) -> Process:
    """Return a program that has started; end it if this is cancelled meanwhile.

    A cancelled ``create_subprocess_exec`` may wait for ever, and leaves the program's children
    (https://github.com/python/cpython/issues/103847).
    """
    running = asyncio.ensure_future(starting)
    try:
        return await to_its_end(running)
    except asyncio.CancelledError:
        await to_its_end(_end(running.result()))
        raise


async def _give(child: Process, stdin: Awaitable[bytes]) -> None:
    assert child.stdin is not None
    child.stdin.write(await stdin)
    with contextlib.suppress(ConnectionError):  # It has ended, and its output says why.
        await child.stdin.drain()
    child.stdin.close()


async def _copy(output: asyncio.StreamReader, result: IO[bytes], limits: Helper) -> None:
    size = 0
    while piece := await output.read(1 << 16):
        size += len(piece)
        if size > limits.most:
            raise LimitError(f"it printed more than {limits.most} bytes")
        result.write(piece)


async def _limit_writing(pid: int, patience: Patience) -> None:
    """Raise ``ExcessError`` when a program and its children have written too much."""
    limit = WriteLimit(pid, int(patience.most or 0))
    try:
        while patience.most:
            await asyncio.sleep(_WATCH)
            limit.require()
    except LimitError:
        raise ExcessError(masked(process_tree.report(pid))) from None


async def _follow(chunks: AsyncIterator[bytes], log: OutputLog) -> None:
    try:
        async for chunk in chunks:
            log.add(chunk)
    finally:
        log.close()


async def _chunks(child: Process, patience: Patience) -> AsyncIterator[bytes]:
    # Stderr is a separate pipe only if stdout is the result.
    output, pid = child.stderr or child.stdout, child.pid
    assert output is not None
    before, end = -1, time.monotonic() + (patience.total or math.inf)
    while (left := end - time.monotonic()) > 0:
        try:
            # wait_for would lose a cancellation while output is there (Python 3.11).
            async with asyncio.timeout(min(left, patience.silence or math.inf)):
                chunk = await output.read(1 << 16)
        except TimeoutError:
            written = process_tree.count_written_bytes(pid) if patience.writing else before
            if written == before and time.monotonic() < end:
                raise SilentError(await _kill(output, pid)) from None
            before = written
            continue
        if not chunk:
            return
        yield chunk
    raise OverdueError(await _kill(output, pid))


async def _kill(output: asyncio.StreamReader, pid: int) -> str:
    """Kill a program and all that it started; return what they were doing."""
    report = masked(process_tree.report(pid))
    await _kill_tree(pid)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(GRACE):
            await output.read()
    return report


async def _kill_tree(pid: int) -> None:
    for pause in process_tree.killing(pid):
        await asyncio.sleep(pause)


async def _end(child: Process) -> None:
    """End a program; what it still prints is lost."""
    # A pipe that nobody reads has no end, and the program waits until it can write.
    outputs = [each for each in (child.stdout, child.stderr) if each]
    discarding = [asyncio.create_task(_discard(each)) for each in outputs]
    try:
        await _end_itself(child)
    finally:
        for each in discarding:
            each.cancel()


async def _discard(output: asyncio.StreamReader) -> None:
    while await output.read(1 << 16):
        pass


async def _end_itself(child: Process) -> None:
    if child.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGTERM)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(GRACE):
            await child.wait()
        return
    await _kill_tree(child.pid)
    await child.wait()
