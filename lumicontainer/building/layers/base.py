"""Build the layer of a base: by debootstrap, of an image of a registry, or of an image file.

The data of an image file stay as they are: the layer has what changes in its tree. If they cannot
be in an image as they are, the file system is packed again, once, into the cache.
"""

import asyncio
import functools
import shutil
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lumicontainer.building.layers.making import Make, make_object
from lumicontainer.cache import objects
from lumicontainer.cache.drafts import name_of
from lumicontainer.cache.objects import Entry
from lumicontainer.constants import EPOCH
from lumicontainer.core.plan.plan import base_of
from lumicontainer.core.plan.steps import BASE
from lumicontainer.errors import LumicontainerError
from lumicontainer.host.mirrors import mirrored_image, plain_registry
from lumicontainer.host.site import require_mirror
from lumicontainer.image import sif, squashfs
from lumicontainer.image.assembly import layout
from lumicontainer.image.assembly.assemble import Source
from lumicontainer.image.assembly.reader import Squashfs, read_squashfs
from lumicontainer.image.assembly.recompress import recompress
from lumicontainer.image.base_image import require_image, require_unchanged
from lumicontainer.image.survey import Survey, survey, survey_tree, wrong_versions
from lumicontainer.sandbox.builder import BaseImage, Builder
from lumicontainer.sandbox.failures.debootstrap_log import follow_log
from lumicontainer.sandbox.run import capturing, log_line, make_environment, run_command
from lumicontainer.sandbox.runtimes.runtime import Base
from lumicontainer.sandbox.step_run import StepRun
from lumicontainer.sandbox.tree.foreign import in_place
from lumicontainer.sandbox.tree.foreign.repack import repack
from lumicontainer.sandbox.tree.index import write_index
from lumicontainer.sandbox.workspace import remove_tree
from lumicontainer.system.files import no_links
from lumicontainer.system.files.regular import FileState
from lumicontainer.system.terminal.progress import Task


async def make_base_layer(builder: Builder) -> Entry:
    """Return the layer of the base from the cache, or build it."""
    plan = builder.plan
    about = _about(plan.base_key, plan.base_inputs)
    make = _take_file if plan.bootstrap.file else _bootstrap
    entry = await make_object(builder, BASE, about, partial(make, builder))
    await _require_data(builder, entry)
    return entry


def _about(key: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
    return {"step": BASE, "kind": "layer", "key": key, "parent": "", "inputs": dict(inputs)}


async def keep_base(builder: Builder, base: Entry, packages: str) -> None:
    """Keep a base that a lock built as the one that the lock pins.

    ``packages`` is the sha256 of the list of its packages. It is also the base of builds without a
    lock, if the cache has none: a lock changes nothing of what they use.
    """
    bootstrap = builder.plan.bootstrap
    for name, each in {
        f"{BASE}: pinned": bootstrap._replace(packages=packages),
        BASE: bootstrap,
    }.items():
        about = _about(*base_of(each))
        await make_object(replace(builder, fresh=False), name, about, partial(_copy, base))


async def _copy(base: Entry, task: Task, draft: Path) -> None:
    del task
    for each in base.folder.iterdir():
        if each.name not in (objects.ENTRY, objects.SUMS):
            await asyncio.to_thread(shutil.copyfile, each, draft / each.name)


async def require_cached_data(builder: Builder) -> None:
    """Find the data of a cached base that its layer does not have; raise if they changed."""
    if not builder.fresh and (stack := builder.cached()):
        await _require_data(builder, stack[0])


async def _take_file(builder: Builder, task: Task, draft: Path) -> None:
    """Make the layer of what changes in the tree of an image file."""
    run = StepRun(builder, BASE, (), task)
    run.root.mkdir()
    state = await _write_layer(builder, draft, run.root / "upper")
    file = Path(builder.plan.bootstrap.file)
    try:
        _compare_versions(builder, await asyncio.to_thread(survey, file))
    except LumicontainerError:
        require_unchanged(file, state)
        raise
    await asyncio.to_thread(remove_tree, run.root)


async def _bootstrap(builder: Builder, task: Task, draft: Path) -> None:
    run = StepRun(builder, BASE, (), task)
    run.root.mkdir()
    await asyncio.to_thread(remove_tree, builder.place.sandbox)
    builder.place.sandbox.mkdir()
    tree, bootstrap = run.sandbox / "tree", builder.plan.bootstrap
    await _fill(run, tree)
    if not bootstrap.by_debootstrap:
        _compare_versions(builder, await asyncio.to_thread(survey_tree, tree))
    async with capturing(run, draft):
        no_links.clean_base(tree)
    builder.place.sandbox_layers = [name_of(draft)]


async def _fill(run: StepRun, tree: Path) -> None:
    """Make the tree of a base by the runtime's bootstrap, from this host's mirrors."""
    runtime, bootstrap, site = run.builder.runtime, run.builder.plan.bootstrap, run.builder.site
    mirror = require_mirror(site.mirror) if bootstrap.by_debootstrap else ""
    plain = plain_registry(bootstrap.image, site.mirrors)
    bootstrap = bootstrap._replace(image=mirrored_image(bootstrap.image, site.mirrors))
    base = Base(bootstrap, mirror, run.root, tree, plain, site)
    environment = {**make_environment(run), "SOURCE_DATE_EPOCH": str(EPOCH)}
    if plain:
        environment |= {"APPTAINER_NOHTTPS": "1", "SINGULARITY_NOHTTPS": "1"}
    logs = partial(runtime.bootstrap_logs, base, run.root / "engine")
    # The engine downloads an image silently.
    async with follow_log(logs, functools.partial(log_line, run)):
        await run_command(run, runtime.bootstrap(base), environment, writing=True)


def _compare_versions(builder: Builder, survey: Survey) -> None:
    """Report the versions that the layer of the base states, and its image has others of."""
    base, provided = builder.plan.resolved.layers[0], survey.provides
    stated = {name: value for name, value in base.content.provides.items() if name in provided}
    for each in wrong_versions(stated, provided):
        builder.progress.say(f"warning: layer '{base.name}', under 'provides': {each}")


async def _write_layer(builder: Builder, draft: Path, upper: Path) -> FileState:
    """Write the layer of a base that is an image file; return the state of the file.

    ``upper`` is a new folder for the files of the layer.
    """
    source, state = await _verify(builder)
    form = objects.IN_PLACE
    if reason := in_place.repack_reason(_superblock(source), squashfs.BLOCK_SIZE):
        builder.progress.say(f"the base is packed again, once, into the cache: {reason}")
        source, form = Source((await _pack_again(builder)).layer), objects.PACKED

    def write() -> None:
        in_place.base_edits(_read(source)).write_layer(draft, upper)

    await asyncio.to_thread(write)
    require_unchanged(Path(builder.plan.bootstrap.file), state)
    (draft / objects.IMAGE).write_text(f"{form}\n")
    return state


async def _require_data(builder: Builder, base: Entry) -> None:
    if not base.image_form or base.name in builder.images:
        return
    state = None
    if base.image_form == objects.PACKED:
        source = Source((await _pack_again(builder)).layer)
    else:
        source, state = await _verify(builder)
    read_index = partial(_read_index, builder, source)
    builder.images[base.name] = BaseImage(source, read_index, state)


async def _read_index(builder: Builder, source: Source) -> Path:
    """Return the folder of the index of a base's data, from the cache or read now."""

    async def make(task: Task, draft: Path) -> None:
        del task
        rows = await asyncio.to_thread(lambda: in_place.read_rows(_read(source)))
        write_index(draft / objects.INDEX, rows)

    return (await _make(builder, objects.FILES, make)).folder


async def convert_source(builder: Builder, base: Entry, compression: str) -> tuple[Source, str]:
    """Return the data of a base, and their compression, which is the wanted one or gzip."""
    source = builder.images[base.name].source
    form = layout.NAMES[_superblock(source).compressor]
    if compression in (form, "zstd"):
        return source, form
    builder.progress.say(
        f"the base is packed again, once, into the cache: its compression is {form}, and an "
        f"engine reads {compression}"
    )

    async def make(task: Task, draft: Path) -> None:
        size = source.size or source.path.stat().st_size
        words = (source, draft / objects.LAYER, layout.GZIP, partial(task.reached, total=size))
        await asyncio.to_thread(recompress, *words)

    return Source((await _make(builder, objects.GZIP_IMAGE, make)).layer), compression


async def _verify(builder: Builder) -> tuple[Source, FileState]:
    """Return the data of the base's image file, and its state; raise if its sha256 differs.

    The file is hashed once in a build, and must stay as it was.
    """
    bootstrap, verified = builder.plan.bootstrap, builder.verified
    file, stated = Path(bootstrap.file), builder.plan.resolved.layers[0].content.provides
    if file in verified:
        require_unchanged(file, verified[file])
    else:
        verified[file] = await asyncio.to_thread(require_image, file, bootstrap.sha256, stated)
    root = sif.root(file)
    return Source(file, root.offset, root.size), verified[file]


async def _pack_again(builder: Builder) -> Entry:
    async def make(task: Task, draft: Path) -> None:
        del task
        source, state = await _verify(builder)
        with TemporaryDirectory(dir=builder.place.root) as folder:
            listed = Path(folder) / "files"
            await asyncio.to_thread(repack, source, draft / objects.LAYER, listed)
        require_unchanged(source.path, state)

    return await _make(builder, objects.PACKED_IMAGE, make)


async def _make(builder: Builder, kind: str, make: Make) -> Entry:
    key = objects.image_key(kind, builder.plan.base_inputs["image"])
    about = {"step": BASE, "kind": kind, "key": key, "parent": "", "inputs": {}}
    return await make_object(builder, objects.step_name(BASE, kind), about, make)


def _read(source: Source) -> Squashfs:
    return read_squashfs(source.path, source.offset, size=source.size)


def _superblock(source: Source) -> layout.Superblock:
    with source.path.open("rb") as file:
        file.seek(source.offset)
        return layout.unpack_superblock(file.read(layout.SUPERBLOCK_SIZE))
