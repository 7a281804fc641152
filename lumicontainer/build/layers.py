"""Build layers: the base by the engine's bootstrap, each step in a sandbox of the layers below."""

import asyncio
import contextlib
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any, TypeAlias

from lumicontainer.build.builder import Builder, Stack
from lumicontainer.build.cache import store as cache
from lumicontainer.build.cache.drafts import name_of
from lumicontainer.build.cache.shared.fetch import take
from lumicontainer.build.cache.store import Entry
from lumicontainer.build.failures.causes import require_files
from lumicontainer.build.failures.debootstrap_log import followed
from lumicontainer.build.failures.failure import leak_failure
from lumicontainer.build.run import Run
from lumicontainer.build.runtimes.runtime import Base
from lumicontainer.build.secrets import leaks
from lumicontainer.build.tree.snapshot import STATE
from lumicontainer.build.workspace import remove_tree
from lumicontainer.constants import EPOCH
from lumicontainer.core.plan.steps import BASE, Compile, Step
from lumicontainer.errors import InputError, JobError, Problem
from lumicontainer.host.mirrors import mirrored_image, plain_registry
from lumicontainer.host.site import require_mirror
from lumicontainer.image.assembly.layout import GZIP
from lumicontainer.image.assembly.recompress import recompress
from lumicontainer.image.base_image import require_image, require_unchanged
from lumicontainer.image.survey import survey_tree, wrong_versions
from lumicontainer.system import flock
from lumicontainer.system.files import foreign, no_links
from lumicontainer.system.terminal.progress import Task
from lumicontainer.system.waiting import POLL, in_background, locked, uninterrupted

_Make: TypeAlias = Callable[[Task, Path], Awaitable[None]]
"""Fills the draft of an object."""


async def begin(builder: Builder) -> None:
    """Unpack the cached layers in the sandbox, and verify them meanwhile.

    Squashfs has no checksums: if a layer is damaged, those below it are unpacked instead, and every
    file of the sandbox is read.
    """
    stack = () if builder.fresh else builder.cached()
    locks = [await builder.use(entry.name) for entry in stack]
    async with in_background(_prove(builder, stack, locks)) as proving:
        if not stack or len(stack) > len(builder.plan.steps):
            await proving
            return
        if _is_built_elsewhere(builder, stack):
            builder.progress.cached("unpack", "not needed: another build runs the next step")
            await proving
            return
        with builder.progress.step("unpack") as task:
            async with in_background(Run(builder, "unpack", stack, task).prepare()) as unpacking:
                intact = await proving
                if intact == stack:
                    await unpacking
                    return
            (builder.place.sandbox / STATE).unlink(missing_ok=True)
            if intact:
                await Run(builder, "unpack", intact, task).prepare()


async def _prove(builder: Builder, stack: Stack, locks: Sequence[int]) -> Stack:
    """Verify layers; return the intact ones below the first damaged one."""
    limit = asyncio.Semaphore(2)

    async def prove(name: str) -> Entry | None:
        if name in builder.proven:
            return builder.proven[name]
        async with limit:
            return await asyncio.to_thread(builder.cache.proven, name)

    found = await asyncio.gather(*(prove(entry.name) for entry in stack))
    for lock, proven in zip(locks, found, strict=True):
        if proven is None:
            builder.release(lock)
    builder.proven.update({entry.name: entry for entry in found if entry})
    return tuple(entry for entry in takewhile(bool, found) if entry)


def _is_built_elsewhere(builder: Builder, below: Stack) -> bool:
    step = builder.plan.steps[len(below) - 1]
    name = cache.object_name(step.key, below[-1].tree)
    with flock.attempt(builder.cache.make_lock(name)) as unused:
        return not unused


async def base_layer(builder: Builder) -> Entry:
    """Return the layer of the base from the cache, or build it."""
    plan = builder.plan
    about: dict[str, Any] = {"step": BASE, "kind": "layer", "key": plan.base_key, "parent": ""}
    about["inputs"] = dict(plan.base_inputs)
    return await _made(builder, BASE, about, lambda task, draft: _bootstrap(builder, task, draft))


async def step_layer(builder: Builder, step: Step, below: Stack, wheels: Entry | None) -> Entry:
    """Return the layer of a step from the cache, or build it on ``below``."""

    async def make(task: Task, draft: Path) -> None:
        run = Run(builder, step.name, below, task, secret_names=step.secrets, files=step.files)
        run.memory_per_job = step.memory_per_job
        await run.prepare()
        async with run.capturing(draft):
            await run.program(step.program, wheels=wheels)
        builder.place.sandbox_layers = [*(entry.name for entry in below), name_of(draft)]

    return await _made(builder, step.name, _about(step, "layer", below), make)


async def wheels(builder: Builder, compiled: Compile, below: Stack) -> Entry:
    """Return the wheels of a layer from the cache, or compile them on ``below``."""
    shown = f"{compiled.name}: compile"
    if builder.compile_jobs:
        return await _sent(builder, compiled, below, shown)

    async def make(task: Task, draft: Path) -> None:
        run = Run(builder, shown, below, task, apart=True, secret_names=compiled.secrets)
        run.memory_per_job, run.as_user = compiled.memory_per_job, True
        await run.program(compiled.program, packages=compiled.packages)
        for wheel in run.left(".whl"):
            if found := leaks(wheel):
                raise leak_failure(run, found)
            foreign.copy_below(wheel.parent, wheel.name, draft / wheel.name)
        await asyncio.to_thread(remove_tree, run.root)

    return await _made(builder, shown, _about(compiled, "wheels", below), make)


async def cached_below(builder: Builder, compiled: Compile) -> Stack:
    """Return the layers on which a layer compiles; raise ``InputError`` if one is not cached."""
    wanted = builder.plan.keys.index(compiled.parent) + 1
    stack = builder.cached()[:wanted]
    locks = [await builder.use(entry.name) for entry in stack]
    intact = await _prove(builder, stack, locks)
    if len(intact) < wanted:
        hint = "build the image: that compiles the layer too"
        raise InputError(Problem(f"the layers below '{compiled.name}' are not cached", hint=hint))
    return intact


async def _sent(builder: Builder, compiled: Compile, below: Stack, shown: str) -> Entry:
    """Return the wheels of a layer from the cache, or compile them in a job of their own.

    The job, not this process, locks them while it compiles.
    """
    assert builder.compile_jobs is not None
    name = cache.object_name(compiled.key, below[-1].tree)
    if entry := await _found(builder, name):
        builder.progress.cached(shown)
        return entry
    with builder.progress.step(shown) as task:
        async with locked(builder.cache.make_lock(name), task):
            publisher = await take(builder, name, shown)
        if publisher and (entry := await _found(builder, name)):
            task.found(f"taken from {publisher}")
            return entry
        await builder.compile_jobs.compile(compiled.name, compiled.memory_per_job, task)
        if entry := await _found(builder, name):
            return entry
    what = f"the compile job of '{compiled.name}' left no wheels in the cache"
    raise JobError(Problem(what, str(builder.cache.root), hint="repeat the command"))


async def in_compression(builder: Builder, entry: Entry, compression: str) -> Entry:
    """Return a layer of which the data have a compression, from the cache or made of ``entry``."""
    if compression == "zstd":
        return entry
    key = cache.conversion_key(entry, compression)
    about = {"step": entry.step, "kind": compression, "key": key, "parent": "", "inputs": {}}

    async def make(task: Task, draft: Path) -> None:
        reached = partial(task.reached, total=entry.size)
        words = (entry.layer, draft / cache.LAYER, GZIP, reached)
        await asyncio.to_thread(recompress, *words)

    return await _made(builder, f"{entry.step}: {compression}", about, make)


def _about(step: Step | Compile, kind: str, below: Stack) -> dict[str, Any]:
    fields = {"step": step.name, "key": step.key, "inputs": dict(step.inputs)}
    return {**fields, "kind": kind, "parent": below[-1].tree}


async def _made(builder: Builder, shown: str, about: Mapping[str, Any], make: _Make) -> Entry:
    """Return an object from the cache, or build it; only one build of the user does at a time."""
    store = builder.cache
    name = cache.object_name(about["key"], about["parent"])
    if entry := await _found(builder, name):
        builder.progress.cached(shown)
        return entry
    with builder.progress.step(shown) as task:
        async with locked(store.make_lock(name), task) as others:
            # Another build may have built it since the first look.
            publisher = await take(builder, name, shown)
            if entry := await _found(builder, name):
                origin = f"taken from {publisher}" * bool(publisher)
                task.found(origin or f"built by {others or 'another build'}")
                return entry
            began = time.monotonic()
            draft = store.draft(name)
            try:
                await make(task, draft)
                require_files(builder)
                builder.place.drop_log(shown)
                facts = {**about, "seconds": round(time.monotonic() - began, 1)}
                async with _unused(builder, name, task):
                    return await uninterrupted(store.store, draft, facts)
            finally:
                shutil.rmtree(draft, ignore_errors=True)


async def _found(builder: Builder, name: str) -> Entry | None:
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
async def _unused(builder: Builder, name: str, task: Task) -> AsyncIterator[None]:
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


async def _bootstrap(builder: Builder, task: Task, draft: Path) -> None:
    run = Run(builder, BASE, (), task)
    run.root.mkdir()
    await asyncio.to_thread(remove_tree, builder.place.sandbox)
    builder.place.sandbox.mkdir()
    tree, bootstrap = run.sandbox / "tree", builder.plan.bootstrap
    if bootstrap.file:
        file, stated = Path(bootstrap.file), builder.plan.resolved.layers[0].content.provides
        verified = await asyncio.to_thread(require_image, file, bootstrap.sha256, stated)
        await _fill(run, tree)
        require_unchanged(file, verified)
        no_links.keep_environment(tree)
    else:
        await _fill(run, tree)
    if not bootstrap.by_debootstrap:
        await asyncio.to_thread(_compare_versions, builder, tree)
    async with run.capturing(draft):
        no_links.clean_base(tree)
    builder.place.sandbox_layers = [name_of(draft)]


async def _fill(run: Run, tree: Path) -> None:
    """Make the tree of a base by the runtime's bootstrap, from this host's mirrors."""
    runtime, bootstrap, site = run.builder.runtime, run.builder.plan.bootstrap, run.builder.site
    mirror = require_mirror(site.mirror) if bootstrap.by_debootstrap else ""
    plain = False
    if not bootstrap.file:
        plain = plain_registry(bootstrap.image, site.mirrors)
        bootstrap = bootstrap._replace(image=mirrored_image(bootstrap.image, site.mirrors))
    base = Base(bootstrap, mirror, run.root, tree, plain, site)
    environment = {**run.environment(), "SOURCE_DATE_EPOCH": str(EPOCH)}
    if plain:
        environment |= {"APPTAINER_NOHTTPS": "1", "SINGULARITY_NOHTTPS": "1"}
    logs = partial(runtime.bootstrap_logs, base, run.root / "engine")
    # The engine downloads an image silently.
    async with followed(logs, run.log_line):
        await run.run(runtime.bootstrap(base), environment, writing=True)


def _compare_versions(builder: Builder, tree: Path) -> None:
    """Report the versions that the layer of the base states, and its image has others of."""
    base = builder.plan.resolved.layers[0]
    there = survey_tree(tree).provides
    stated = {name: value for name, value in base.content.provides.items() if name in there}
    for each in wrong_versions(stated, there):
        builder.progress.say(f"warning: layer '{base.name}', under 'provides': {each}")
