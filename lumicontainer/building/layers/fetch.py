"""Take what a build needs from the caches of others into the user's own."""

import asyncio
from collections.abc import Iterator, Sequence
from threading import Event

from lumicontainer.building import disk_space
from lumicontainer.cache.explain import stack_of
from lumicontainer.cache.integrity import Damaged
from lumicontainer.cache.objects import Entry, object_name
from lumicontainer.cache.shared.source import LayerSource, Untrusted, find_offered
from lumicontainer.cache.store import Cache
from lumicontainer.core.plan.steps import BASE, Plan
from lumicontainer.errors import DownloadError, HostError, Problem, SpaceError
from lumicontainer.sandbox.builder import Builder
from lumicontainer.system import units
from lumicontainer.system.os_errors import refused
from lumicontainer.system.terminal.progress import Task
from lumicontainer.system.waiting import task_group, to_its_end, wait_for_lock

AT_ONCE = 4
"""The layers that are taken at the same time: each comes by few connections."""


def known_stack(plan: Plan, store: Cache, shared: Sequence[LayerSource]) -> list[Entry]:
    """Return the layers that a build would find, from the base up; their bytes are not verified.

    Those that it would take of others have a publisher.
    """

    def look(name: str) -> Entry | None:
        return store.entry(name) or find_offered(name, shared)

    return list(stack_of(plan, look))


def doubts(plan: Plan, stack: Sequence[Entry], shared: Sequence[LayerSource]) -> Iterator[Problem]:
    """Yield why the layer above a ``known_stack`` is not taken of those who have it."""
    if len(stack) == len(plan.keys):
        return
    step = [BASE, *(each.name for each in plan.steps)][len(stack)]
    name = object_name(plan.keys[len(stack)], stack[-1].tree if stack else "")
    yield from filter(None, (source.doubt(name, step) for source in shared))


async def fetch(builder: Builder) -> None:
    """Take the layers that only others have; warn about each that cannot be taken."""
    if not builder.shared or builder.fresh:
        return
    for source in builder.shared:
        try:
            source.require()
        except HostError as error:
            builder.progress.say(str(error.problems[0]._replace(level="warning")))
    with builder.progress.work("shared cache") as task:
        words = (builder.plan, builder.cache, builder.shared)
        stack = await asyncio.to_thread(known_stack, *words)
        offered = [entry for entry in stack if entry.publisher]
        total = sum(entry.size for entry in offered)
        disk_space.require([disk_space.cache_need(builder.cache.root, total)])
        arrival = Arrival(task, total)
        publishers = await take_all(builder, offered, task, arrival)
    if publishers:
        by = ", ".join(dict.fromkeys(publishers))
        text = f"taken from the shared cache: {units.size(arrival.done)}, published by {by}"
        builder.progress.say(text)


async def take_all(
    builder: Builder, offered: Sequence[Entry], task: Task, arrival: "Arrival"
) -> list[str]:
    """Take layers, several at once, and return their publishers.

    If one cannot be taken, those above it are of no use: no more of them are begun.
    """
    places, given_up = asyncio.Semaphore(AT_ONCE), False

    async def take_one(entry: Entry) -> str:
        nonlocal given_up
        async with places:
            if given_up:
                return ""
            async with wait_for_lock(builder.cache.make_lock(entry.name), task):
                publisher = await take(builder, entry.name, entry.step, arrival)
            given_up = given_up or not publisher
            return publisher

    async with task_group() as group:
        taking = [group.create_task(take_one(entry)) for entry in offered]
    return [publisher for each in taking if (publisher := each.result())]


class Arrival:
    """Count the bytes that come, until it is stopped; threads may share it."""

    def __init__(self, task: Task | None = None, total: int = 0) -> None:
        self.done, self._task, self._total = 0, task, total
        self.stopped = Event()

    def count(self, size: int) -> None:
        """Count bytes; raise ``ValueError`` after the stop."""
        if self.stopped.is_set():
            raise ValueError("the build ends")
        self.done += size
        if self._task:
            self._task.reached(min(self.done, self._total), self._total)


async def take(builder: Builder, name: str, step: str, arrival: Arrival | None = None) -> str:
    """Take an object that the user's own cache has not; the caller holds its ``make_lock``.

    Returns its publisher, or nothing if there is none that can be taken. Each reason is a warning.
    """
    if builder.fresh or builder.cache.entry(name):
        return ""
    for source in builder.shared:
        if entry := await _take_from(source, builder, name, step, arrival or Arrival()):
            return entry.publisher
    return ""


async def _take_from(
    source: LayerSource, builder: Builder, name: str, step: str, arrival: Arrival
) -> Entry | None:
    if (source, name) in builder.refused:
        return None
    held = await builder.use(name)
    taking = asyncio.ensure_future(
        asyncio.to_thread(source.take, name, builder.cache, arrival.count)
    )
    try:
        entry = await asyncio.shield(taking)
        builder.proven[name] = entry
        return entry
    except asyncio.CancelledError:
        arrival.stopped.set()
        await to_its_end(asyncio.gather(taking, return_exceptions=True))
        raise
    except (OSError, Untrusted, Damaged, DownloadError, HostError) as error:
        builder.release(held)
        if isinstance(error, OSError) and isinstance(refused(error, ""), SpaceError):
            raise
        if not isinstance(error, FileNotFoundError):
            _warn(builder, source, name, step, error)
        return None


def _warn(builder: Builder, source: LayerSource, name: str, step: str, error: Exception) -> None:
    if (source, str(error)) not in builder.refused:
        problem = source.refusal(name, step, error)
        builder.progress.say(str(problem))
    builder.refused.update({(source, name), (source, str(error))})
