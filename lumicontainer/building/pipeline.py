"""Build an image: build missing layers, pack them, check the image, and rename it."""

import asyncio
import functools
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from lumicontainer.building import disk_space
from lumicontainer.building.checks import smoke
from lumicontainer.building.checks.reading import PackedFiles, identify
from lumicontainer.building.layers import additions, fetch, layers
from lumicontainer.building.layers import base as bases
from lumicontainer.cache import objects
from lumicontainer.core.model import Platform
from lumicontainer.core.plan.steps import Compile, Plan, Step
from lumicontainer.core.render.render import render, render_help, render_notes
from lumicontainer.errors import InputError, LumicontainerError, Problem, StepError, did_you_mean
from lumicontainer.host.machine import free_memory
from lumicontainer.image import build_date, records, sif, squashfs
from lumicontainer.image.assembly.assemble import Source
from lumicontainer.image.inspect import CHECKED_LABEL, KEY_LABEL
from lumicontainer.jobs.folders import partial_image
from lumicontainer.sandbox.builder import Builder, Stack
from lumicontainer.sandbox.failures.failure import no_space
from lumicontainer.sandbox.run import prepare_sandbox, run_as_root
from lumicontainer.sandbox.runtimes.runtime import Runtime
from lumicontainer.sandbox.step_run import StepRun
from lumicontainer.sandbox.workspace import remove_tree
from lumicontainer.system import process
from lumicontainer.system.files import no_links
from lumicontainer.system.files.partial import remove_leftovers
from lumicontainer.system.files.write import replace, sync
from lumicontainer.system.os_errors import refused
from lumicontainer.system.waiting import task_group
from lumicontainer.trust.describe import describe_build, load_writer
from lumicontainer.trust.statement import PackedLayer


def compression_of(runtime: Runtime, platform: Platform) -> str:
    """Return a compression that the engines of this host and of the platform can read."""
    return "gzip" if "gzip" in (runtime.compression, platform.compression) else "zstd"


async def build(builder: Builder, output: Path, *, verify: bool = True, more: int = 0) -> Stack:
    """Build the image, and rename it when it is complete and its checks have passed.

    Without ``verify`` no check runs; ``more`` steps follow. Returns the layers. Raises
    ``StepError`` if a step fails, ``ExaminedError`` if a check fails; an old image then stays.
    """
    remove_leftovers(output)
    builder.cache.reclaim()
    try:
        await fetch.fetch(builder)
        require_space(builder, output)
        return await _build(builder, output, verify=verify, more=more)
    except OSError as error:
        full = no_space(builder, str(error), output=output)
        raise full or refused(error, "cannot build the image") from error


def require_space(builder: Builder, output: Path) -> None:
    """Raise ``SpaceError`` if a folder has too little space."""
    sizes = disk_space.sizes(builder.plan, builder.cache)
    place, unpacks = builder.place, builder.runtime.checks_tree
    work = disk_space.work(sizes, place.root, unpacks=unpacks, unpacked=place.sandbox.exists())
    compression = compression_of(builder.runtime, builder.plan.resolved.platform)
    converted = disk_space.to_convert(sizes, builder.cache, compression)
    disk_space.require([work, *disk_space.results(sizes, builder.cache.root, output, converted)])


async def _build(builder: Builder, output: Path, *, verify: bool, more: int) -> Stack:
    missing = _missing_steps(builder)
    compiles = sum(step.compiled is not None for step in missing)
    unpacks = bool(missing) and len(builder.cached()) > 0 and not builder.fresh
    builder.progress.expect(len(builder.plan.steps) + compiles + unpacks + 2 + verify + more)
    stack = await assemble(builder)
    with partial_image(output, builder.job) as partial:
        packed = await _pack(builder, stack, partial, {} if verify else {CHECKED_LABEL: "no"})
        await asyncio.to_thread(_require_packages, partial)
        async with task_group() as group:
            # The disk takes as long for a large image as some checks.
            group.create_task(asyncio.to_thread(sync, partial))
            if verify:
                await smoke.require_checks(builder, stack, partial, packed)
            else:
                path = shlex.quote(str(output))
                builder.progress.say(f"not checked: lumicontainer verify {path} does that")
        replace(partial, output)
    return stack


def _require_packages(partial: Path) -> None:
    """Raise ``StepError`` if Python of the image wrote anything else than its list of packages."""
    try:
        records.require_list_of_packages(partial)
    except InputError as error:
        what, hint = "python3 of the image did not list its packages", "use another base image"
        raise StepError(Problem(what, why=error.problems[0].why, hint=hint)) from error


async def assemble(builder: Builder) -> Stack:
    """Return the layers of the plan, cached or built."""
    await bases.require_cached_data(builder)
    if additions.is_possible(builder.plan):
        base = await bases.make_base_layer(builder)
        if await asyncio.to_thread(additions.can_start, builder, base):
            return (base, await additions.make_last_layer(builder, base))
    await layers.begin(builder)
    return await _make_stack(builder)


async def _make_stack(builder: Builder) -> Stack:
    plan = builder.plan
    base = await bases.make_base_layer(builder)
    new = asyncio.get_running_loop().create_future
    ready: dict[str, asyncio.Future[Stack]] = {key: new() for key in plan.keys}
    ready[plan.base_key].set_result((base,))
    missing = [step for step in _missing_steps(builder) if step.compiled]
    slots = asyncio.Semaphore(_compiles_at_once(builder, missing))

    async def compile_wheels(work: Compile) -> objects.Entry:
        below = await ready[work.parent]
        async with slots:
            return await layers.make_wheels(builder, work, below)

    async with task_group() as group:
        compiling = {
            step.key: group.create_task(compile_wheels(step.compiled))
            for step in missing
            if step.compiled
        }
        group.create_task(asyncio.to_thread(load_writer))
        stack: Stack = (base,)
        for step in plan.steps:
            wheels = await compiling[step.key] if step.key in compiling else None
            stack = (*stack, await layers.make_step_layer(builder, step, stack, wheels))
            ready[step.key].set_result(stack)
    return stack


async def compile_layer(builder: Builder, name: str) -> objects.Entry:
    """Compile the wheels of one layer into the cache, on the cached layers below it.

    Raises ``InputError`` if the layer compiles nothing, or if a layer below is not cached.
    """
    compiles = {step.name: step.compiled for step in builder.plan.steps if step.compiled}
    if name not in compiles:
        what, hint = f"the layer '{name}' compiles nothing", did_you_mean(name, compiles)
        raise InputError(Problem(what, "--only-compile", hint=hint))
    await bases.require_cached_data(builder)
    below = await layers.take_cached_below(builder, compiles[name])
    return await layers.make_wheels(builder, compiles[name], below)


def _missing_steps(builder: Builder) -> Sequence[Step]:
    """Return the steps from the first one that is not cached; no layer is verified."""
    cached = 0 if builder.fresh else len(builder.cached())
    return builder.plan.steps[max(0, cached - 1) :]


def _compiles_at_once(builder: Builder, steps: Iterable[Step]) -> int:
    """Return how many layers may compile at the same time; memory is the limit, not cores."""
    if builder.compile_jobs:
        return builder.compile_jobs.at_once
    memory = [builder.jobs_of(step.memory_per_job) * step.memory_per_job for step in steps]
    return max(1, free_memory() // max(memory, default=1))


def labels_of(plan: Plan) -> dict[str, str]:
    """Return the labels of an image."""
    resolved = plan.resolved
    return {
        "org.opencontainers.image.title": resolved.recipe.name,
        "org.opencontainers.image.description": resolved.recipe.summary,
        "org.opencontainers.image.version": (resolved.profile or resolved.platform).name,
        KEY_LABEL: plan.steps[-1].key,
    }


async def _pack(
    builder: Builder, stack: Stack, partial: Path, labels: Mapping[str, str]
) -> PackedFiles:
    """Write the image file: the data of all layers, and of one with its records.

    Returns its files.
    """
    plan = builder.plan
    compression = compression_of(builder.runtime, plan.resolved.platform)
    below = []
    if stack[0].name in builder.images:
        source, compression = await bases.convert_source(builder, stack[0], compression)
        below.append(source)
    definition = render(plan, "def", mirror=_public_mirror(stack[0], plan.bootstrap.release))
    labels = {**labels, **build_date.label_of(builder.build_date), **labels_of(plan)}
    attributes = {"labels": labels, "deffile": definition, "helpfile": render_help(plan)}
    layout = sif.layout(definition, {"data": {"attributes": attributes}, "type": "container"})
    stored = [await layers.convert_layer(builder, entry, compression) for entry in stack]
    with builder.progress.step("pack") as task:
        run = StepRun(builder, "pack", stack, task)
        run.output = partial
        notes, top = run.root / "notes", run.root / objects.LAYER
        no_links.write_tree(notes, render_notes(plan, document=definition, labels=labels))
        if builder.runtime.checks_tree and not (run.image and run.image.starts):
            await _complete_tree(run, notes)
        await asyncio.to_thread(squashfs.pack_as_root, notes, top, compression)
        sources = [*below, *map(Source, (*(entry.layer for entry in stored), top))]
        total = sum(each.size or each.path.stat().st_size for each in sources)
        reached = functools.partial(task.reached, total=total)
        describe = describe_build(plan, [*map(_packed_layer, stack)])
        words = (sources, partial, layout, reached, describe)
        try:
            files = await asyncio.to_thread(squashfs.write_image, *words)
            known = [f"{compression} of {stack[0].key}" for _ in below]
            known += [entry.sha256(objects.LAYER) for entry in stored]
            packed = await asyncio.to_thread(identify, files, known)
        except (OSError, LumicontainerError):
            _require_unchanged_base(run)
            raise
        _require_unchanged_base(run)
        await asyncio.to_thread(remove_tree, run.root)
        builder.place.drop_log(run.name)
    return packed


def _packed_layer(entry: objects.Entry) -> PackedLayer:
    size = entry.layer.stat().st_size
    return PackedLayer(entry.step, entry.key, entry.sha256(objects.LAYER), size)


def _require_unchanged_base(run: StepRun) -> None:
    if run.image:
        run.image.require_unchanged()


async def _complete_tree(run: StepRun, notes: Path) -> None:
    """Give the tree in the sandbox all files of the image, and no mount points of steps."""
    run.builder.place.sandbox_layers = []
    await prepare_sandbox(run)
    await run_as_root(run, *no_links.copy_command(notes, run.builder.place.sandbox / "tree"))


def _public_mirror(base: objects.Entry, release: str) -> str:
    """Return the mirror in the base's apt sources, the distribution's default."""
    try:
        text = process.capture(["unsquashfs", "-cat", str(base.layer), "etc/apt/sources.list"])
    except process.ProgramError:
        text = ""
    match = re.search(rf"(?m)^deb (\S+) {re.escape(release)} main\b", text)
    return match[1].rstrip("/") if match else ""
