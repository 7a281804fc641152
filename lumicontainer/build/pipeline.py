"""Build an image: make the layers that are missing, pack them, check the image, put it in place."""

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
from lumicontainer.build.failures.failure import no_room
from lumicontainer.build.layers import Run
from lumicontainer.build.workspace import GIB, remove_tree, temporary_root
from lumicontainer.core.model import LayerFile, Platform
from lumicontainer.core.plan.plan import Compile, Plan, Step
from lumicontainer.core.render.render import render, render_notes
from lumicontainer.engines import ENGINES, Engine
from lumicontainer.errors import InputError, Problem
from lumicontainer.host import machine
from lumicontainer.host.site import require_keyring, require_plain_path
from lumicontainer.image import sif, squashfs
from lumicontainer.image.inspect import CHECKED_LABEL, KEY_LABEL
from lumicontainer.system import process, units, user_namespaces
from lumicontainer.system.files import no_links, trust
from lumicontainer.system.files.write import sync
from lumicontainer.system.os_errors import refused
from lumicontainer.system.waiting import task_group

PACKS = ("layered", "flat")
_MEMORY_OF_A_JOB = 2 * GIB
"""What a compiler takes at most for a source that includes PyTorch's headers (measured: 1.6 GB)."""


def check_output(output: Path) -> None:
    """Raise ``InputError`` where the output would overwrite something that is no image."""
    if not output.parent.is_dir():
        raise InputError(
            Problem("the image's folder is not there", str(output.parent), hint="make it first")
        )
    if not os.access(output.parent, os.W_OK | os.X_OK):
        raise InputError(
            Problem(
                "the image's folder cannot be written to",
                str(output.parent),
                hint="name another --output",
            )
        )
    # An image is checked, and so run, before it has its name.
    if problem := trust.doubt(output.parent, "the image's folder", "--output", owners=False):
        raise InputError(problem)
    if output.exists() or output.is_symlink():
        try:
            sif.read_objects(output)
        except InputError as error:
            raise InputError(
                Problem(
                    "the output is there and is no image",
                    str(output),
                    why=f"{error.problems[0].why}; only an image is replaced by an image",
                    hint="name another --output, or move the file away",
                )
            ) from error


def check_replaced(output: Path) -> None:
    """Raise ``InputError`` where the image that would be replaced holds what its user laid on it.

    That is an overlay in the file itself, as ``singularity overlay create`` makes one.
    """
    laid = sum(each.size for each in sif.read_objects(output) if each.form == sif.EXT3)
    if laid:
        raise InputError(
            Problem(
                "the image carries an overlay of yours",
                str(output),
                why=f"{units.size(laid)} that a new image would not have",
                hint="name another --output, or move the image away",
            )
        )


def check_host(plan: Plan) -> None:
    """Raise where this host cannot build, before anything is begun."""
    if plan.bootstrap.agent == "debootstrap":
        require_keyring()
        require_plain_path(temporary_root())
    with_ids = user_namespaces.namespace_command()
    # First a plain one: where none can be made, unshare of util-linux 2.38 waits for ever when it
    # is to map ids by newuidmap.
    for command in (user_namespaces.PLAIN_NAMESPACE, with_ids):
        user_namespaces.require_namespaces(command)


def choose_pack(wanted: str | None, engine: Engine, platform: Platform) -> str:
    """Return how an image is packed: as asked, else as the engines that meet it allow.

    Raises ``InputError`` where an engine cannot read what is asked for.
    """
    here = engine.stacks
    there = ENGINES[platform.engine].reads_layers if platform.engine else here
    if wanted == "layered" and not here:
        raise InputError(
            Problem(
                "this host's engine reads no image of layers",
                why="it has no fuse-overlayfs, or it is SingularityCE, which would show the "
                "lowest layer alone and say nothing",
                hint="use --pack flat",
            )
        )
    return wanted or ("layered" if here and there else "flat")


def compression_of(engine: Engine, platform: Platform) -> str:
    """Return the compression that this host's engine reads, and that of the platform."""
    named = [engine.compression]
    if platform.engine:
        named.append(ENGINES[platform.engine].compression)
    return "gzip" if "gzip" in named else "zstd"


async def build(builder: Builder, output: Path, *, form: str, verify: bool = True) -> Stack:
    """Build the image and give it its name once it is whole and its checks hold.

    ``form`` is one of ``PACKS``; without ``verify`` no check is made. Returns the layers. Raises
    ``StepError`` where a step fails, ``ExaminedError`` where a check does; whatever stood at
    ``output`` before is then as it was.
    """
    for dead in _partials(output):
        _remove_dead(dead)
    builder.cache.reclaim()
    require_room(builder, output, form=form)
    try:
        return await _build(builder, output, form=form, verify=verify)
    except OSError as error:
        full = no_room(builder, str(error), output=output)
        raise full or refused(error, "cannot build the image") from error


def require_room(builder: Builder, output: Path, *, form: str) -> None:
    """Raise ``SpaceError`` where a place has too little room; what the dead left is gone."""
    found = disk_space.sizes(builder.plan, builder.cache)
    places = {"temporary": builder.place.root, "cache": builder.cache.root, "output": output}
    unpacked = builder.place.ground.exists()
    disk_space.require(disk_space.needs(found, **places, flat=form == "flat", unpacked=unpacked))


async def _build(builder: Builder, output: Path, *, form: str, verify: bool) -> Stack:
    making = _to_make(builder)
    compiles = sum(step.compiled is not None for step in making)
    unpacks = bool(making) and len(builder.cached()) > 0 and not builder.fresh
    builder.progress.expect(len(builder.plan.steps) + compiles + unpacks + 2 + verify)
    stack = await assemble(builder)
    with _partial(output) as partial:
        told = {} if verify else {CHECKED_LABEL: "no"}
        await _pack(builder, stack, partial, form=form, labels=told)
        if verify:
            await smoke.hold(builder, stack, partial, every=form == "flat")
        else:
            builder.progress.say(f"not checked: lumicontainer verify {output.name} does that")
        partial.replace(output)
        sync(output.parent)
    return stack


async def assemble(builder: Builder) -> Stack:
    """Return the layers of the plan, each from the cache or made."""
    plan = builder.plan
    await layers.begin(builder)
    base = await layers.base_layer(builder)
    ready: dict[str, asyncio.Future[Stack]] = {plan.base_key: _done((base,))}
    ready |= {step.key: asyncio.get_running_loop().create_future() for step in plan.steps}
    slots = asyncio.Semaphore(side_by_side(builder.jobs))
    async with task_group() as group:
        compiling = {
            step.key: group.create_task(_compile(builder, step.compiled, ready, slots))
            for step in _to_make(builder)
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


def _to_make(builder: Builder) -> Sequence[Step]:
    """Return the steps from the first that the cache lacks; nothing is proven here."""
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


def side_by_side(jobs: int) -> int:
    """Return how many layers may compile at the same time, each with that many jobs.

    The kernel shares the cores among them; memory is what would run out.
    """
    return max(1, machine.free_memory() // (jobs * _MEMORY_OF_A_JOB))


def default_jobs() -> int:
    """Return the compile jobs that the cores and the free memory of this host allow."""
    cores = len(os.sched_getaffinity(0))
    return max(1, min(cores, machine.free_memory() // _MEMORY_OF_A_JOB))


@contextmanager
def _partial(output: Path) -> Iterator[Path]:
    """Give the name under which an image is written; what is left there at the end goes.

    It is locked meanwhile, so that another build removes what a dead one left, and only that.
    """
    partial, descriptor = _new_partial(output)
    try:
        yield partial
    finally:
        partial.unlink(missing_ok=True)
        os.close(descriptor)


def _partials(output: Path) -> list[Path]:
    prefix = f".{output.name}.partial-"
    return [path for path in output.parent.iterdir() if path.name.startswith(prefix)]


def _new_partial(output: Path) -> tuple[Path, int]:
    while True:
        descriptor, name = tempfile.mkstemp(prefix=f".{output.name}.partial-", dir=output.parent)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        # Before it was locked, another build may have taken it for a dead one's.
        if os.fstat(descriptor).st_nlink:
            return Path(name), descriptor
        os.close(descriptor)


def _remove_dead(partial: Path) -> None:
    with contextlib.suppress(OSError):
        descriptor = os.open(partial, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            partial.unlink()
        finally:
            os.close(descriptor)


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
            packed = run.root / store.LAYER
            await layers.squash(run, notes, packed)
            top = packed.read_bytes()
            # The tree, its layers and the image fill the disk; nothing else stays beside them.
            await asyncio.to_thread(remove_tree, run.root)
            builder.place.drop_log(run.name)
            parts = [squashfs.Packed(entry.layer, entry.sha256(store.LAYER)) for entry in stack]
            await asyncio.to_thread(
                squashfs.join, parts, top, partial, layout, reached=task.reached
            )
        else:
            await _flatten(run, notes, partial, layout=layout)


def write_tree(folder: Path, files: Iterable[LayerFile]) -> None:
    """Write files with their folders, whatever the umask."""
    for file in files:
        path = folder / file.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file.content)
        path.chmod(file.mode)
    for each in (folder, *(path for path in folder.rglob("*") if path.is_dir())):
        each.chmod(0o755)


async def _flatten(run: Run, notes: Path, partial: Path, *, layout: sif.Layout) -> None:
    """Pack what the layers make together as one file system."""
    run.builder.place.ground_holds = []  # A build may leave the mount points of its steps.
    await run.ground.prepare()
    tree = run.builder.place.ground / "tree"
    await run.namespaced(*no_links.copy_command(notes, tree))
    resolved = run.builder.plan.resolved
    compression = compression_of(run.builder.engine, resolved.platform)
    await layers.squash(run, tree, partial, layout.offset, compression)
    size = partial.stat().st_size - layout.offset
    await asyncio.to_thread(
        squashfs.complete, partial, layout, [sif.Partition(layout.offset, size)]
    )


def _public_mirror(base: store.Entry, release: str) -> str:
    """Return the mirror that the image itself names, which is the distribution's default."""
    try:
        text = process.capture(["unsquashfs", "-cat", str(base.layer), "etc/apt/sources.list"])
    except process.ProgramError:
        text = ""
    found = re.search(rf"(?m)^deb (\S+) {re.escape(release)} main\b", text)
    return found[1].rstrip("/") if found else ""
