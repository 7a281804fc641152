"""Build an image: build missing layers, pack them, check the image, and rename it."""

import asyncio
import functools
import gzip
import json
import re
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from lumicontainer.build import disk_space, layers
from lumicontainer.build.builder import Builder, Stack
from lumicontainer.build.cache import store, usage
from lumicontainer.build.cache.shared import fetch
from lumicontainer.build.checks import smoke
from lumicontainer.build.failures.failure import no_space
from lumicontainer.build.run import Run
from lumicontainer.build.runtimes.runtime import Runtime
from lumicontainer.build.tree.snapshot import STATE
from lumicontainer.build.workspace import remove_tree
from lumicontainer.core.model import Platform
from lumicontainer.core.plan.steps import Compile, Plan, Step
from lumicontainer.core.render.render import render, render_notes
from lumicontainer.engines import ENGINES
from lumicontainer.errors import InputError, Problem, did_you_mean
from lumicontainer.host.machine import free_memory
from lumicontainer.image import sif, squashfs
from lumicontainer.image.inspect import CHECKED_LABEL, KEY_LABEL
from lumicontainer.inside.image import listing
from lumicontainer.inside.image.listing import PlainLayer
from lumicontainer.system import process, units
from lumicontainer.system.files import no_links, trust
from lumicontainer.system.files.partial import partial_file, remove_leftovers, require_folder_of
from lumicontainer.system.files.write import replace, sync
from lumicontainer.system.os_errors import refused
from lumicontainer.system.terminal.progress import Task
from lumicontainer.system.waiting import completed, task_group

PACKS = ("layered", "flat")


def check_output(output: Path) -> None:
    """Raise ``InputError`` if the output cannot be written or would replace another file."""
    require_folder_of(output, "image")
    # The image is checked, and so executed, before it gets its name.
    if problem := trust.doubt(output.parent, "the image's folder", "--output", owners=False):
        raise InputError(problem)
    if output.exists() or output.is_symlink():
        try:
            sif.read_objects(output)
        except InputError as error:
            why = f"{error.problems[0].why}; a build replaces only images"
            hint = "name another --output, or move the file away"
            raise InputError(
                Problem("the output is not an image", str(output), why, hint)
            ) from error


def check_replaced(output: Path) -> None:
    """Raise ``InputError`` if the old image has an overlay (``singularity overlay create``)."""
    size = sum(each.size for each in sif.read_objects(output) if each.form == sif.EXT3)
    if size:
        why = f"a new image would not have its {units.size(size)}"
        hint = "name another --output, or move the image away"
        raise InputError(Problem("the image has an overlay of yours", str(output), why, hint))


def choose_pack(wanted: str | None, runtime: Runtime, platform: Platform) -> str:
    """Return the form of the image: the wanted one, else what all its engines can read.

    Raises ``InputError`` if this host's engine cannot read the wanted form.
    """
    here = runtime.stacks
    there = ENGINES[platform.engine].reads_layers if platform.engine else here
    if wanted == "layered" and not here:
        why = "fuse-overlayfs is missing, or it is SingularityCE, which shows only the lowest layer"
        what = "this host's engine cannot read layered images"
        raise InputError(Problem(what, why=why, hint="use --pack flat"))
    return wanted or ("layered" if here and there else "flat")


def compression_of(runtime: Runtime, platform: Platform) -> str:
    """Return a compression that the engines of this host and of the platform can read."""
    there = ENGINES[platform.engine].compression if platform.engine else "zstd"
    return "gzip" if "gzip" in (runtime.compression, there) else "zstd"


def build_file(builder: Builder, output: Path, *, pack: str | None, verify: bool) -> None:
    """Build an image file; then note which layers it has, and prune the cache."""
    begun = time.monotonic()
    form = choose_pack(pack, builder.runtime, builder.plan.resolved.platform)
    usage.wanted_limit()  # An invalid size ends the command before it builds.
    stack = completed(build(builder, output, form=form, verify=verify), builder.progress)
    usage.settle(builder.cache, stack, builder.progress.say, output)
    size = f"{output.stat().st_size / 1e6:.0f} MB"
    builder.progress.say(f"{output.name}: {size} in {time.monotonic() - begun:.0f} s")


async def build(
    builder: Builder, output: Path, *, form: str, verify: bool = True, more: int = 0
) -> Stack:
    """Build the image, and rename it when it is complete and its checks have passed.

    ``form`` is one of ``PACKS``; without ``verify`` no check runs; ``more`` steps follow. Returns
    the layers. Raises ``StepError`` if a step fails, ``ExaminedError`` if a check fails; an old
    image then stays.
    """
    remove_leftovers(output)
    builder.cache.reclaim()
    try:
        await fetch.fetch(builder)
        require_space(builder, output, form=form)
        return await _build(builder, output, form=form, verify=verify, more=more)
    except OSError as error:
        full = no_space(builder, str(error), output=output)
        raise full or refused(error, "cannot build the image") from error


def require_space(builder: Builder, output: Path, *, form: str) -> None:
    """Raise ``SpaceError`` if a folder has too little space."""
    found = disk_space.sizes(builder.plan, builder.cache)
    place, flat = builder.place, form == "flat"
    work = disk_space.work(found, place.root, flat=flat, unpacked=place.sandbox.exists())
    disk_space.require([work, *disk_space.results(found, builder.cache.root, output)])


async def _build(builder: Builder, output: Path, *, form: str, verify: bool, more: int) -> Stack:
    missing = _missing_steps(builder)
    compiles = sum(step.compiled is not None for step in missing)
    unpacks = bool(missing) and len(builder.cached()) > 0 and not builder.fresh
    builder.progress.expect(len(builder.plan.steps) + compiles + unpacks + 2 + verify + more)
    await layers.begin(builder)
    labels = {} if verify else {CHECKED_LABEL: "no"}
    with partial_file(output) as partial:
        async with task_group() as group:
            beginning = group.create_task(_begin(builder, partial, form, labels))
            stack = await _stacked(builder)
        await _pack(
            builder, stack, partial, beginning.result() or _head(builder, stack, form, labels)
        )
        async with task_group() as group:
            # The disk takes as long for a large image as some checks.
            group.create_task(asyncio.to_thread(sync, partial))
            if verify:
                await smoke.require_checks(builder, stack, partial, every=form == "flat")
            else:
                builder.progress.say(f"not checked: lumicontainer verify {output.name} does that")
        replace(partial, output)
    return stack


async def assemble(builder: Builder) -> Stack:
    """Return the layers of the plan, cached or built."""
    await layers.begin(builder)
    return await _stacked(builder)


async def _stacked(builder: Builder) -> Stack:
    plan = builder.plan
    base = await layers.base_layer(builder)
    new = asyncio.get_running_loop().create_future
    ready: dict[str, asyncio.Future[Stack]] = {key: new() for key in plan.keys}
    ready[plan.base_key].set_result((base,))
    missing = [step for step in _missing_steps(builder) if step.compiled]
    slots = asyncio.Semaphore(_compiles_at_once(builder, missing))

    async def compiled(work: Compile) -> store.Entry:
        below = await ready[work.parent]
        async with slots:
            return await layers.wheels(builder, work, below)

    async with task_group() as group:
        compiling = {
            step.key: group.create_task(compiled(step.compiled))
            for step in missing
            if step.compiled
        }
        stack: Stack = (base,)
        for step in plan.steps:
            wheels = await compiling[step.key] if step.key in compiling else None
            stack = (*stack, await layers.step_layer(builder, step, stack, wheels))
            ready[step.key].set_result(stack)
    return stack


async def compile_layer(builder: Builder, name: str) -> store.Entry:
    """Compile the wheels of one layer into the cache, on the cached layers below it.

    Raises ``InputError`` if the layer compiles nothing, or if a layer below is not cached.
    """
    compiles = {step.name: step.compiled for step in builder.plan.steps if step.compiled}
    if name not in compiles:
        what, hint = f"the layer '{name}' compiles nothing", did_you_mean(name, compiles)
        raise InputError(Problem(what, "--only-compile", hint=hint))
    below = await layers.cached_below(builder, compiles[name])
    return await layers.wheels(builder, compiles[name], below)


def _missing_steps(builder: Builder) -> Sequence[Step]:
    """Return the steps from the first one that is not cached; no layer is verified."""
    there = 0 if builder.fresh else len(builder.cached())
    return builder.plan.steps[max(0, there - 1) :]


def _compiles_at_once(builder: Builder, steps: Iterable[Step]) -> int:
    """Return how many layers may compile at the same time; memory is the limit, not cores."""
    if builder.compile_jobs:
        return builder.compile_jobs.at_once
    memory = [builder.jobs_of(step.memory_per_job) * step.memory_per_job for step in steps]
    return max(1, free_memory() // max(memory, default=1))


class _Head(NamedTuple):
    """Hold what an image file has before its last layers."""

    form: str
    definition: str
    labels: Mapping[str, str]
    layout: sif.Layout
    copied: Sequence[sif.Partition] = ()


def _head(builder: Builder, stack: Stack, form: str, labels: Mapping[str, str]) -> _Head:
    """Return the head of an image that has no layer yet; ``stack`` has its base."""
    plan = builder.plan
    definition = render(plan, "def", mirror=_public_mirror(stack[0], plan.bootstrap.release))
    labels = {**labels, **labels_of(plan)}
    attributes = {"labels": labels, "deffile": definition}
    metadata = {"data": {"attributes": attributes}, "type": "container"}
    return _Head(form, definition, labels, sif.layout(definition, metadata))


def labels_of(plan: Plan) -> dict[str, str]:
    """Return the labels of an image."""
    return {
        "org.opencontainers.image.title": plan.resolved.recipe.name,
        "org.opencontainers.image.description": plan.resolved.recipe.summary,
        KEY_LABEL: plan.steps[-1].key,
    }


async def _begin(
    builder: Builder, partial: Path, form: str, labels: Mapping[str, str]
) -> _Head | None:
    """Copy the layers that need no step into a layered image, while the steps run."""
    below = builder.intact()
    if form == "flat" or not below:
        return None
    head = await asyncio.to_thread(_head, builder, below, form, labels)
    return head._replace(copied=await _copy(below, partial, head))


async def _copy(
    stack: Stack, partial: Path, head: _Head, task: Task | None = None
) -> list[sif.Partition]:
    """Copy the layers of ``stack`` that an image does not have yet; return all places."""
    parts = [
        squashfs.Packed(entry.layer, entry.layer.stat().st_size, 0, entry.sha256(store.LAYER))
        for entry in stack[len(head.copied) :]
    ]
    offset, total = _end(head, head.copied), sum(part.size for part in parts)
    reached = functools.partial(task.reached, total=total) if task else lambda _: None
    new = await asyncio.to_thread(squashfs.copy_layers, parts, partial, offset, reached)
    return [*head.copied, *new]


def _end(head: _Head, copied: Sequence[sif.Partition]) -> int:
    """Return the offset of the next layer of an image."""
    return sif.align(copied[-1].offset + copied[-1].size) if copied else head.layout.offset


async def _pack(builder: Builder, stack: Stack, partial: Path, head: _Head) -> None:
    with builder.progress.step("pack") as task:
        run = Run(builder, "pack", stack, task)
        run.output = partial
        notes = run.root / "notes"
        files = render_notes(builder.plan, document=head.definition, labels=head.labels)
        no_links.write_tree(notes, files)
        if head.form == "flat":
            await _flatten(run, notes, partial, layout=head.layout)
            return
        squashfs.require_number(len(stack), partial)
        async with task_group() as group:
            copying = group.create_task(_copy(stack, partial, head, task))
            top = await _notes_layer(run, notes)
        layers = copying.result()
        layers += squashfs.copy_layers([top], partial, _end(head, layers))
        await asyncio.to_thread(squashfs.complete, partial, head.layout, layers)
        await asyncio.to_thread(remove_tree, run.root)
        builder.place.drop_log(run.name)


async def _notes_layer(run: Run, notes: Path) -> squashfs.Packed:
    """Return the squashfs of ``notes``, with the list of the image's files.

    The first line of the list is the number of layers under it.
    """
    layers_of_image = [*await _listings(run), listing.of_layer(str(notes))]
    listed = await asyncio.to_thread(lambda: listing.dump(listing.merged(layers_of_image)))
    (notes / listing.FILE).write_text(f"{len(run.below)}\n{listed}\n")
    (notes / listing.FILE).chmod(0o644)
    packed = run.root / store.LAYER
    await asyncio.to_thread(squashfs.pack_as_root, notes, packed, "zstd")
    return squashfs.Packed(packed, packed.stat().st_size)


async def _listings(run: Run) -> list[PlainLayer]:
    found = []
    for entry in run.below:
        path = run.builder.cache.listing(entry)
        listed = _listing(path)
        if listed is None:
            words = [str(entry.layer), str(run.root / "listed"), str(path)]
            await run.module("lumicontainer.build.tree.list_layer", *words)
            listed = _listing(path)
        assert listed is not None
        found.append(listed)
    return found


def _listing(path: Path) -> PlainLayer | None:
    try:
        listed: PlainLayer = json.loads(gzip.decompress(path.read_bytes()))
    except (OSError, EOFError, zlib.error, ValueError):
        return None
    return listed


async def _flatten(run: Run, notes: Path, partial: Path, *, layout: sif.Layout) -> None:
    run.builder.place.sandbox_layers = []  # Remove the mount points of steps.
    await run.prepare()
    tree = run.builder.place.sandbox / "tree"
    await run.as_root(*no_links.copy_command(notes, tree))
    resolved = run.builder.plan.resolved
    compression = compression_of(run.builder.runtime, resolved.platform)
    words = map(str, (tree, tree.parent / STATE, partial, layout.offset, compression))
    await run.module("lumicontainer.build.tree.pack", *words)
    size = partial.stat().st_size - layout.offset
    await asyncio.to_thread(
        squashfs.complete, partial, layout, [sif.Partition(layout.offset, size)]
    )


def _public_mirror(base: store.Entry, release: str) -> str:
    """Return the mirror in the base's apt sources, the distribution's default."""
    try:
        text = process.capture(["unsquashfs", "-cat", str(base.layer), "etc/apt/sources.list"])
    except process.ProgramError:
        text = ""
    found = re.search(rf"(?m)^deb (\S+) {re.escape(release)} main\b", text)
    return found[1].rstrip("/") if found else ""
