"""Build the layers of steps, each in a sandbox of the layers below."""

import asyncio
from collections.abc import Sequence
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any

from lumicontainer.building.layers.fetch import take
from lumicontainer.building.layers.making import find_object, make_object
from lumicontainer.building.secrets import leaks
from lumicontainer.cache import objects
from lumicontainer.cache.drafts import name_of
from lumicontainer.cache.objects import Entry
from lumicontainer.core.plan.steps import Compile, Step
from lumicontainer.errors import InputError, JobError, Problem
from lumicontainer.image.assembly.assemble import Source
from lumicontainer.image.assembly.layout import GZIP
from lumicontainer.image.assembly.recompress import recompress
from lumicontainer.sandbox.builder import Builder, Stack
from lumicontainer.sandbox.failures.failure import leak_failure
from lumicontainer.sandbox.run import capturing, prepare_sandbox, run_program, take_files
from lumicontainer.sandbox.step_run import StepRun
from lumicontainer.sandbox.tree.snapshot import STATE
from lumicontainer.sandbox.workspace import remove_tree
from lumicontainer.system import flock
from lumicontainer.system.files import foreign
from lumicontainer.system.terminal.progress import Task
from lumicontainer.system.waiting import in_background, wait_for_lock


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
            run = StepRun(builder, "unpack", stack, task)
            async with in_background(prepare_sandbox(run)) as unpacking:
                intact = await proving
                if intact == stack:
                    await unpacking
                    return
            (builder.place.sandbox / STATE).unlink(missing_ok=True)
            if intact:
                await prepare_sandbox(StepRun(builder, "unpack", intact, task))


async def _prove(builder: Builder, stack: Stack, locks: Sequence[int]) -> Stack:
    """Verify layers; return the intact ones below the first damaged one."""
    limit = asyncio.Semaphore(2)

    async def prove(name: str) -> Entry | None:
        if name in builder.proven:
            return builder.proven[name]
        async with limit:
            return await asyncio.to_thread(builder.cache.proven, name)

    proofs = await asyncio.gather(*(prove(entry.name) for entry in stack))
    for lock, proven in zip(locks, proofs, strict=True):
        if proven is None:
            builder.release(lock)
    builder.proven.update({entry.name: entry for entry in proofs if entry})
    return tuple(entry for entry in takewhile(bool, proofs) if entry)


def _is_built_elsewhere(builder: Builder, below: Stack) -> bool:
    step = builder.plan.steps[len(below) - 1]
    name = objects.object_name(step.key, below[-1].tree)
    with flock.attempt(builder.cache.make_lock(name)) as unused:
        return not unused


async def make_step_layer(
    builder: Builder, step: Step, below: Stack, wheels: Entry | None
) -> Entry:
    """Return the layer of a step from the cache, or build it on ``below``."""

    async def make(task: Task, draft: Path) -> None:
        run = StepRun(builder, step.name, below, task, secret_names=step.secrets, files=step.files)
        run.memory_per_job = step.memory_per_job
        await prepare_sandbox(run)
        async with capturing(run, draft):
            await run_program(run, step.program, wheels=wheels)
        builder.place.sandbox_layers = [*(entry.name for entry in below), name_of(draft)]

    return await make_object(builder, step.name, _about(step, "layer", below), make)


async def make_wheels(builder: Builder, compiled: Compile, below: Stack) -> Entry:
    """Return the wheels of a layer from the cache, or compile them on ``below``."""
    shown = f"{compiled.name}: compile"
    if builder.compile_jobs:
        return await _send(builder, compiled, below, shown)

    async def make(task: Task, draft: Path) -> None:
        run = StepRun(builder, shown, below, task, apart=True, secret_names=compiled.secrets)
        run.memory_per_job, run.as_user = compiled.memory_per_job, True
        await run_program(run, compiled.program, packages=compiled.packages)
        for wheel in take_files(run, ".whl"):
            if problems := leaks(wheel):
                raise leak_failure(run, problems)
            foreign.copy_below(wheel.parent, wheel.name, draft / wheel.name)
        await asyncio.to_thread(remove_tree, run.root)

    return await make_object(builder, shown, _about(compiled, "wheels", below), make)


async def take_cached_below(builder: Builder, compiled: Compile) -> Stack:
    """Return the layers on which a layer compiles; raise ``InputError`` if one is not cached."""
    number = builder.plan.keys.index(compiled.parent) + 1
    stack = builder.cached()[:number]
    locks = [await builder.use(entry.name) for entry in stack]
    intact = await _prove(builder, stack, locks)
    if len(intact) < number:
        hint = "build the image: that compiles the layer too"
        raise InputError(Problem(f"the layers below '{compiled.name}' are not cached", hint=hint))
    return intact


async def _send(builder: Builder, compiled: Compile, below: Stack, shown: str) -> Entry:
    """Return the wheels of a layer from the cache, or compile them in a job of their own.

    The job, not this process, locks them while it compiles.
    """
    assert builder.compile_jobs is not None
    name = objects.object_name(compiled.key, below[-1].tree)
    if entry := await find_object(builder, name):
        builder.progress.cached(shown)
        return entry
    with builder.progress.step(shown) as task:
        async with wait_for_lock(builder.cache.make_lock(name), task):
            publisher = await take(builder, name, shown)
        if publisher and (entry := await find_object(builder, name)):
            task.note_origin(f"taken from {publisher}")
            return entry
        await builder.compile_jobs.compile(compiled.name, compiled.memory_per_job, task)
        if entry := await find_object(builder, name):
            return entry
    what = f"the compile job of '{compiled.name}' left no wheels in the cache"
    raise JobError(Problem(what, str(builder.cache.root), hint="repeat the command"))


async def convert_layer(builder: Builder, entry: Entry, compression: str) -> Entry:
    """Return a layer of which the data have a compression, from the cache or made of ``entry``."""
    if compression == "zstd":
        return entry
    key = objects.conversion_key(entry, compression)
    about = {"step": entry.step, "kind": compression, "key": key, "parent": "", "inputs": {}}

    async def make(task: Task, draft: Path) -> None:
        reached = partial(task.reached, total=entry.size)
        words = (Source(entry.layer), draft / objects.LAYER, GZIP, reached)
        await asyncio.to_thread(recompress, *words)

    return await make_object(builder, f"{entry.step}: {compression}", about, make)


def _about(step: Step | Compile, kind: str, below: Stack) -> dict[str, Any]:
    fields = {"step": step.name, "key": step.key, "inputs": dict(step.inputs)}
    return {**fields, "kind": kind, "parent": below[-1].tree}
