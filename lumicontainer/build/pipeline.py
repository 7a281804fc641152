"""Build an image: build missing layers, pack them, check the image, and rename it."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from lumicontainer.build import disk_space, layers
from lumicontainer.build.builder import Builder, Stack
from lumicontainer.build.cache import store
from lumicontainer.build.checks import smoke
from lumicontainer.build.failures.failure import no_space
from lumicontainer.build.layers import Run
from lumicontainer.build.workspace import remove_tree
from lumicontainer.core.model import LayerFile, Platform
from lumicontainer.core.plan.plan import Compile, Plan, Step
from lumicontainer.core.render.render import render, render_notes
from lumicontainer.engines import ENGINES, Engine
from lumicontainer.errors import InputError, Problem
from lumicontainer.host import machine
from lumicontainer.host.site import require_keyring
from lumicontainer.image import sif, squashfs
from lumicontainer.image.inspect import CHECKED_LABEL, KEY_LABEL
from lumicontainer.inside.image import listing
from lumicontainer.system import process, units, user_namespaces
from lumicontainer.system.files import no_links, trust
from lumicontainer.system.files.write import sync
from lumicontainer.system.os_errors import refused
from lumicontainer.system.waiting import task_group

PACKS = ("layered", "flat")
_MEMORY_OF_A_JOB = 2 << 30
"""The memory of a compiler for a source with PyTorch's headers (measured: 1.6 GB)."""


def check_output(output: Path) -> None:
    """Raise ``InputError`` if the output cannot be written or would replace another file."""
    if not output.parent.is_dir():
        what = "the image's folder does not exist"
        raise InputError(Problem(what, str(output.parent), hint="create it"))
    if not os.access(output.parent, os.W_OK | os.X_OK):
        what = "cannot write to the image's folder"
        raise InputError(Problem(what, str(output.parent), hint="name another --output"))
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


def check_host(plan: Plan) -> None:
    """Raise ``HostError`` if this host cannot build."""
    if plan.bootstrap.agent == "debootstrap":
        require_keyring()
    with_ids = user_namespaces.namespace_command()
    # First without ids: if no namespace can be created, unshare of util-linux 2.38 hangs when it
    # maps ids by newuidmap.
    for command in (user_namespaces.PLAIN_NAMESPACE, with_ids):
        user_namespaces.require_namespaces(command)


def choose_pack(wanted: str | None, engine: Engine, platform: Platform) -> str:
    """Return the form of the image: the wanted one, else what all its engines can read.

    Raises ``InputError`` if this host's engine cannot read the wanted form.
    """
    here = engine.stacks
    there = ENGINES[platform.engine].reads_layers if platform.engine else here
    if wanted == "layered" and not here:
        why = "fuse-overlayfs is missing, or it is SingularityCE, which shows only the lowest layer"
        what = "this host's engine cannot read layered images"
        raise InputError(Problem(what, why=why, hint="use --pack flat"))
    return wanted or ("layered" if here and there else "flat")


def compression_of(engine: Engine, platform: Platform) -> str:
    """Return a compression that the engines of this host and of the platform can read."""
    named = [engine.compression]
    if platform.engine:
        named.append(ENGINES[platform.engine].compression)
    return "gzip" if "gzip" in named else "zstd"


async def build(builder: Builder, output: Path, *, form: str, verify: bool = True) -> Stack:
    """Build the image, and rename it when it is complete and its checks have passed.

    ``form`` is one of ``PACKS``; without ``verify`` no check runs. Returns the layers. Raises
    ``StepError`` if a step fails, ``ExaminedError`` if a check fails; an old image then stays.
    """
    _remove_leftovers(output)
    builder.cache.reclaim()
    require_space(builder, output, form=form)
    try:
        return await _build(builder, output, form=form, verify=verify)
    except OSError as error:
        full = no_space(builder, str(error), output=output)
        raise full or refused(error, "cannot build the image") from error


def require_space(builder: Builder, output: Path, *, form: str) -> None:
    """Raise ``SpaceError`` if a folder has too little space."""
    found = disk_space.sizes(builder.plan, builder.cache)
    places = {"temporary": builder.place.root, "cache": builder.cache.root, "output": output}
    unpacked = builder.place.sandbox.exists()
    disk_space.require(disk_space.needs(found, **places, flat=form == "flat", unpacked=unpacked))


async def _build(builder: Builder, output: Path, *, form: str, verify: bool) -> Stack:
    missing = _missing_steps(builder)
    compiles = sum(step.compiled is not None for step in missing)
    unpacks = bool(missing) and len(builder.cached()) > 0 and not builder.fresh
    builder.progress.expect(len(builder.plan.steps) + compiles + unpacks + 2 + verify)
    stack = await assemble(builder)
    with _partial(output) as partial:
        labels = {} if verify else {CHECKED_LABEL: "no"}
        await _pack(builder, stack, partial, form=form, labels=labels)
        if verify:
            await smoke.require_checks(builder, stack, partial, every=form == "flat")
        else:
            builder.progress.say(f"not checked: lumicontainer verify {output.name} does that")
        partial.replace(output)
        sync(output.parent)
    return stack


async def assemble(builder: Builder) -> Stack:
    """Return the layers of the plan, cached or built."""
    plan = builder.plan
    await layers.begin(builder)
    base = await layers.base_layer(builder)
    ready: dict[str, asyncio.Future[Stack]] = {plan.base_key: _done((base,))}
    ready |= {step.key: asyncio.get_running_loop().create_future() for step in plan.steps}
    slots = asyncio.Semaphore(parallel_compiles(builder.jobs))
    async with task_group() as group:
        compiling = {
            step.key: group.create_task(_compile(builder, step.compiled, ready, slots))
            for step in _missing_steps(builder)
            if step.compiled
        }
        stack: Stack = (base,)
        for step in plan.steps:
            wheels = await compiling[step.key] if step.key in compiling else None
            stack = (*stack, await layers.step_layer(builder, step, stack, wheels))
            ready[step.key].set_result(stack)
    return stack


def _done(stack: Stack) -> asyncio.Future[Stack]:
    future = asyncio.get_running_loop().create_future()
    future.set_result(stack)
    return future


def _missing_steps(builder: Builder) -> Sequence[Step]:
    """Return the steps from the first one that is not cached; no layer is verified."""
    there = 0 if builder.fresh else len(builder.cached())
    return builder.plan.steps[max(0, there - 1) :]


async def _compile(
    builder: Builder,
    compiled: Compile,
    ready: dict[str, asyncio.Future[Stack]],
    slots: asyncio.Semaphore,
) -> store.Entry:
    below = await ready[compiled.parent]
    async with slots:
        return await layers.wheels(builder, compiled, below)


def parallel_compiles(jobs: int) -> int:
    """Return how many layers may compile at the same time; memory is the limit, not cores."""
    return max(1, machine.free_memory() // (jobs * _MEMORY_OF_A_JOB))


def default_jobs() -> int:
    """Return the number of compile jobs that cores and free memory of this host allow."""
    cores = len(os.sched_getaffinity(0))
    return max(1, min(cores, machine.free_memory() // _MEMORY_OF_A_JOB))


@contextmanager
def _partial(output: Path) -> Iterator[Path]:
    """Yield a locked temporary file for the image, and remove it if it is still there at the end.

    The lock lets other builds remove only the files of killed builds.
    """
    while True:
        descriptor, name = tempfile.mkstemp(prefix=f".{output.name}.partial-", dir=output.parent)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        # Another build may have removed it before it was locked.
        if os.fstat(descriptor).st_nlink:
            break
        os.close(descriptor)
    try:
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)
        os.close(descriptor)


def _remove_leftovers(output: Path) -> None:
    """Remove the partial images of killed builds."""
    for path in output.parent.iterdir():
        if path.name.startswith(f".{output.name}.partial-"):
            with contextlib.suppress(OSError), path.open("r+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()


async def _pack(
    builder: Builder, stack: Stack, partial: Path, *, form: str, labels: Mapping[str, str]
) -> None:
    plan = builder.plan
    definition = render(plan, "def", mirror=_public_mirror(stack[0], plan.bootstrap.release))
    labels = {
        **labels,
        "org.opencontainers.image.title": plan.resolved.recipe.name,
        "org.opencontainers.image.description": plan.resolved.recipe.summary,
        KEY_LABEL: plan.steps[-1].key,
    }
    attributes = {"labels": labels, "deffile": definition}
    metadata = {"data": {"attributes": attributes}, "type": "container"}
    layout = sif.layout(definition, metadata)
    with builder.progress.step("pack") as task:
        run = Run(builder, "pack", stack, task)
        run.output = partial
        notes = run.root / "notes"
        write_tree(notes, render_notes(plan, document=definition, labels=labels))
        if form == "layered":
            await _write_listing(run, notes)
            packed = run.root / store.LAYER
            await layers.squash(run, notes, packed)
            top = packed.read_bytes()
            # Save disk space for the tree, its layers and the image.
            await asyncio.to_thread(remove_tree, run.root)
            builder.place.drop_log(run.name)
            parts = [squashfs.Packed(entry.layer, entry.sha256(store.LAYER)) for entry in stack]
            await asyncio.to_thread(
                squashfs.join, parts, top, partial, layout, reached=task.reached
            )
        else:
            await _flatten(run, notes, partial, layout=layout)


async def _write_listing(run: Run, notes: Path) -> None:
    """Put the list of the image's files into ``notes``, below the number of layers under it."""
    layers_of_image = [*await layers.listings(run), listing.of_layer(str(notes))]
    listed = await asyncio.to_thread(lambda: listing.dump(listing.merged(layers_of_image)))
    (notes / listing.FILE).write_text(f"{len(run.below)}\n{listed}\n")
    (notes / listing.FILE).chmod(0o644)


def write_tree(folder: Path, files: Iterable[LayerFile]) -> None:
    """Write files and their folders, independent of the umask."""
    for file in files:
        path = folder / file.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file.content)
        path.chmod(file.mode)
    for each in (folder, *(path for path in folder.rglob("*") if path.is_dir())):
        each.chmod(0o755)


async def _flatten(run: Run, notes: Path, partial: Path, *, layout: sif.Layout) -> None:
    run.builder.place.sandbox_layers = []  # Remove the mount points of steps.
    await run.prepare()
    tree = run.builder.place.sandbox / "tree"
    await run.namespaced(*no_links.copy_command(notes, tree))
    resolved = run.builder.plan.resolved
    compression = compression_of(run.builder.engine, resolved.platform)
    await layers.squash(run, tree, partial, layout.offset, compression)
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
