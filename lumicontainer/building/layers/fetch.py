"""Take what a build needs from a shared cache into the user's own."""

from collections.abc import Iterator

from lumicontainer.building import disk_space
from lumicontainer.cache.explain import stack_of
from lumicontainer.cache.integrity import Damaged
from lumicontainer.cache.objects import Entry
from lumicontainer.cache.shared.shared import SharedCache, Untrusted
from lumicontainer.cache.store import Cache
from lumicontainer.core.plan.steps import Plan
from lumicontainer.errors import HostError, SpaceError
from lumicontainer.sandbox.builder import Builder
from lumicontainer.system import units
from lumicontainer.system.os_errors import refused
from lumicontainer.system.waiting import run_uninterrupted, wait_for_lock


def offers(plan: Plan, store: Cache, shared: SharedCache) -> Iterator[Entry]:
    """Yield the layers that a build would take, from the base up; their bytes are not verified."""
    stack = stack_of(plan, lambda name: store.entry(name) or shared.entry(name))
    yield from (entry for entry in stack if entry.publisher)


async def fetch(builder: Builder) -> None:
    """Take the layers that only the shared cache has; warn about each that cannot be taken."""
    if builder.shared is None or builder.fresh:
        return
    try:
        builder.shared.require()
    except HostError as error:
        builder.progress.say(str(error.problems[0]._replace(level="warning")))
    offered, done = list(offers(builder.plan, builder.cache, builder.shared)), 0
    total = sum(entry.size for entry in offered)
    disk_space.require([disk_space.cache_need(builder.cache.root, total)])
    publishers: dict[str, None] = {}
    with builder.progress.work("shared cache") as task:
        for entry in offered:
            async with wait_for_lock(builder.cache.make_lock(entry.name), task):
                publisher = await take(builder, entry.name, entry.step)
            if not publisher:
                break
            publishers[publisher] = None
            done += entry.size
            task.reached(done, total)
    if done:
        by = ", ".join(publishers)
        text = f"taken from the shared cache: {units.size(done)}, published by {by}"
        builder.progress.say(text)


async def take(builder: Builder, name: str, step: str) -> str:
    """Take an object that the user's own cache has not; the caller holds its ``make_lock``.

    Returns its publisher, or nothing if there is none that can be taken. Each reason is a warning.
    """
    shared, store = builder.shared, builder.cache
    if shared is None or builder.fresh or name in builder.refused or store.entry(name):
        return ""
    held = await builder.use(name)
    try:
        entry = await run_uninterrupted(shared.take, name, store)
        builder.proven[name] = entry
        return entry.publisher
    except (OSError, Untrusted, Damaged) as error:
        builder.release(held)
        if isinstance(error, OSError) and isinstance(refused(error, ""), SpaceError):
            raise
        if not isinstance(error, FileNotFoundError):
            _warn(builder, shared, name, step, error)
        return ""


def _warn(builder: Builder, shared: SharedCache, name: str, step: str, error: Exception) -> None:
    if str(error) not in builder.refused:
        problem = shared.refusal(name, step, error)
        builder.progress.say(str(problem))
    builder.refused.update({name, str(error)})
