"""Take an object of a build from the cache, or make it; one build of the user at a time does."""

import asyncio
import contextlib
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from lumicontainer.building.layers.fetch import take
from lumicontainer.cache import objects
from lumicontainer.cache.objects import Entry
from lumicontainer.sandbox.builder import Builder
from lumicontainer.sandbox.failures.removal import require_files
from lumicontainer.system import flock
from lumicontainer.system.terminal.progress import Task
from lumicontainer.system.waiting import POLL, run_uninterrupted, wait_for_lock

Make: TypeAlias = Callable[[Task, Path], Awaitable[None]]
"""Fills the draft of an object."""


async def make_object(builder: Builder, shown: str, about: Mapping[str, Any], make: Make) -> Entry:
    """Return an object from the cache, or build it; only one build of the user does at a time."""
    store = builder.cache
    name = objects.object_name(about["key"], about["parent"])
    if entry := await find_object(builder, name):
        builder.progress.cached(shown)
        return entry
    with builder.progress.step(shown) as task:
        async with wait_for_lock(store.make_lock(name), task) as others:
            # Another build may have built it since the first look.
            publisher = await take(builder, name, shown)
            if entry := await find_object(builder, name):
                origin = f"taken from {publisher}" * bool(publisher)
                task.note_origin(origin or f"built by {others or 'another build'}")
                return entry
            began = time.monotonic()
            draft = store.draft(name)
            try:
                await make(task, draft)
                require_files(builder.place, store, builder.proven)
                builder.place.drop_log(shown)
                facts = {**about, "seconds": round(time.monotonic() - began, 1)}
                async with _lock_unused(builder, name, task):
                    return await run_uninterrupted(store.store, draft, facts)
            finally:
                shutil.rmtree(draft, ignore_errors=True)


async def find_object(builder: Builder, name: str) -> Entry | None:
    """Return an object of the cache and lock it against pruning until the build ends.

    A missing object stays unlocked, because a build that replaces it waits for its users. A build
    with ``--rebuild`` takes objects newer than itself, or two of them would wait for each other.
    """
    store = builder.cache
    if builder.fresh and not store.made_since(name, builder.began):
        return None
    held = await builder.use(name)
    entry = builder.proven.get(name) or await asyncio.to_thread(store.proven, name)
    if entry is None:
        builder.release(held)
    return entry


@contextlib.asynccontextmanager
async def _lock_unused(builder: Builder, name: str, task: Task) -> AsyncIterator[None]:
    """Wait until no other build uses an object that is to be replaced; then lock it.

    An object must not change while a build that has verified it runs.
    """
    if not builder.fresh:
        await builder.use(name)
        yield
        return
    while (held := flock.exclusive(path := builder.cache.use_lock(name))) is None:
        task.waiting(f"waiting for {flock.users(path)}, which uses the old object")
        await asyncio.sleep(POLL)
    task.waiting("")
    builder.place.locks.append(held)
    try:
        yield
    finally:
        flock.share(held)
