"""Build layers: the base by the engine's bootstrap, each step in a sandbox of the layers below."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import os
import shutil
import sys
import time
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any

import lumicontainer
from lumicontainer.build import sandbox
from lumicontainer.build.builder import STAGED, Builder, Stack, StepRun
from lumicontainer.build.cache import store as cache
from lumicontainer.build.cache.store import Entry
from lumicontainer.build.failures.debootstrap_log import followed
from lumicontainer.build.failures.failure import (
    leak_failure,
    left_failure,
    silent_failure,
    step_failure,
)
from lumicontainer.build.secrets import leaks
from lumicontainer.build.tree.capture import LEAKS
from lumicontainer.build.tree.snapshot import STATE
from lumicontainer.build.workspace import remove_tree
from lumicontainer.core.plan.plan import BASE, EPOCH, Compile, Step
from lumicontainer.core.render.render import render_base
from lumicontainer.host import machine
from lumicontainer.host.mirrors import mirrored_image, plain_registry
from lumicontainer.host.site import require_mirror, require_plain_path, stage_site
from lumicontainer.image import squashfs
from lumicontainer.inside.image import listing
from lumicontainer.inside.image.listing import Layer
from lumicontainer.system import flock, process, user_namespaces
from lumicontainer.system.files import no_links
from lumicontainer.system.terminal import masking
from lumicontainer.system.terminal.progress import Task
from lumicontainer.system.waiting import POLL, locked, uninterrupted


async def begin(builder: Builder) -> None:
    """Verify the cached layers, and unpack the intact ones in the sandbox.

    Squashfs has no checksums: damage would stay in the sandbox.
    """
    stack = () if builder.fresh else builder.cached()
    locks = [await _use(builder, entry.name) for entry in stack]
    limit = asyncio.Semaphore(2)

    async def prove(name: str) -> Entry | None:
        async with limit:
            return await asyncio.to_thread(builder.cache.proven, name)

    found = await asyncio.gather(*(prove(entry.name) for entry in stack))
    for lock, proven in zip(locks, found, strict=True):
        if proven is None:
            _release(builder, lock)
    intact = tuple(entry for entry in takewhile(bool, found) if entry)
    builder.proven.update({entry.name: entry for entry in found if entry})
    if intact and len(intact) <= len(builder.plan.steps):
        if _is_built_elsewhere(builder, intact):
            builder.progress.cached("unpack", "not needed: another build runs the next step")
            return
        with builder.progress.step("unpack") as task:
            await Run(builder, "unpack", intact, task).prepare()


def _is_built_elsewhere(builder: Builder, below: Stack) -> bool:
    step = builder.plan.steps[len(below) - 1]
    held = flock.exclusive(builder.cache.make_lock(cache.object_name(step.key, below[-1].tree)))
    if held is not None:
        os.close(held)
    return held is None


async def base_layer(builder: Builder) -> Entry:
    """Return the layer of the base from the cache, or build it."""
    plan = builder.plan
    about: dict[str, Any] = {"step": BASE, "kind": "layer", "key": plan.base_key, "parent": ""}
    about["inputs"] = dict(plan.base_inputs)
    return await _made(builder, BASE, about, lambda task, draft: _bootstrap(builder, task, draft))


async def step_layer(builder: Builder, step: Step, below: Stack, wheels: Entry | None) -> Entry:
    """Return the layer of a step from the cache, or build it on ``below``."""

    async def make(task: Task, draft: Path) -> None:
        run = Run(builder, step.name, below, task, secret_names=step.secrets)
        await run.program(step.program, wheels=wheels)
        await run.compare(draft)
        builder.place.sandbox_layers = [*(entry.name for entry in below), draft.name[1:]]

    return await _made(builder, step.name, _about(step, "layer", below), make)


async def wheels(builder: Builder, compiled: Compile, below: Stack) -> Entry:
    """Return the wheels of a layer from the cache, or compile them on ``below``."""

    async def make(task: Task, draft: Path) -> None:
        run = Run(builder, shown, below, task, apart=True, secret_names=compiled.secrets)
        await run.program(compiled.program)
        for wheel in run.left(".whl"):
            if found := leaks(wheel):
                raise leak_failure(run, found)
            shutil.copyfile(wheel, draft / wheel.name)
        await asyncio.to_thread(remove_tree, run.root)

    shown = f"{compiled.name}: compile"
    return await _made(builder, shown, _about(compiled, "wheels", below), make)


def _about(step: Step | Compile, kind: str, below: Stack) -> dict[str, Any]:
    fields = {"step": step.name, "key": step.key, "inputs": dict(step.inputs)}
    return {**fields, "kind": kind, "parent": below[-1].tree}


async def _made(
    builder: Builder,
    shown: str,
    about: Mapping[str, Any],
    make: Callable[[Task, Path], Awaitable[None]],
) -> Entry:
    """Return an object from the cache, or build it; only one build of the user does at a time."""
    store = builder.cache
    name = cache.object_name(about["key"], about["parent"])
    if entry := await _found(builder, name):
        builder.progress.cached(shown)
        return entry
    with builder.progress.step(shown) as task:
        async with locked(store.make_lock(name), task) as others:
            # Another build may have built it since the first look.
            if entry := await _found(builder, name):
                task.found(f"built by {others or 'another build'}")
                return entry
            began = time.monotonic()
            draft = store.draft(name)
            try:
                await make(task, draft)
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
    held = await _use(builder, name)
    entry = builder.proven.get(name) or await asyncio.to_thread(store.proven, name)
    if entry is None:
        _release(builder, held)
    return entry


async def _use(builder: Builder, name: str) -> int:
    """Lock an object against pruning until the build ends; return the descriptor of the lock."""
    while (held := flock.shared(builder.cache.use_lock(name))) is None:
        await asyncio.sleep(POLL)
    builder.place.locks.append(held)
    return held


def _release(builder: Builder, held: int) -> None:
    builder.place.locks.remove(held)
    os.close(held)


@contextlib.asynccontextmanager
async def _unused(builder: Builder, name: str, task: Task) -> AsyncIterator[None]:
    """Wait until no other build uses an object that is to be replaced; then lock it.

    An object must not change while a build that has verified it runs.
    """
    if not builder.fresh:
        await _use(builder, name)
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


class Run(StepRun):
    """Run one program in the sandbox of a step."""

    async def program(self, text: str, *, wheels: Entry | None = None) -> None:
        """Run a program as root in the sandbox."""
        self.wheels.mkdir(parents=True)
        self.temporary.chmod(0o1777)
        stage_site(self.builder.site, self.staged, f"/tmp/{STAGED}")
        (self.staged / "step.sh").write_text(text)
        (self.staged / "secrets").mkdir(mode=0o700)
        for secret in self.secret_names:
            (self.staged / "secrets" / secret).touch()
        for wheel in wheels.folder.glob("*.whl") if wheels else ():
            shutil.copyfile(wheel, self.wheels / wheel.name)
        await self.prepare()
        settings = [f"LUMICONTAINER_JOBS={self.builder.jobs}"]
        settings += [f"LUMICONTAINER_WHEELS=/tmp/{STAGED}/wheels"]
        settings += [f"LUMICONTAINER_SECRETS=/tmp/{STAGED}/secrets"]
        script = f". /tmp/{STAGED}/site.sh && exec bash /tmp/{STAGED}/step.sh"
        inside = ["/usr/bin/env", *settings, "bash", "-c", script]
        await self.run(sandbox.command(self, inside))

    async def prepare(self) -> None:
        """Make the sandbox contain what the layers below make together."""
        if sandbox.uses_overlay(self):
            sandbox.make_overlay(self)
            return
        place, below = self.builder.place, [entry.name for entry in self.below]
        if not self.apart and place.sandbox_layers == below:
            return
        tree = self.sandbox / "tree"
        tree.mkdir(parents=True, exist_ok=True)
        tree.chmod(0o755)
        if not self.apart:
            place.sandbox_layers = []
        folders = [str(entry.folder) for entry in self.below]
        state = str(self.sandbox / STATE)
        await self.module("lumicontainer.build.tree.checkout", str(tree), state, *folders)
        if not self.apart:
            place.sandbox_layers = below

    def left(self, suffix: str = "") -> list[Path]:
        """Return the files that the program left in the folder for wheels.

        Raises ``StepError`` if it has other entries.
        """
        others = [] if no_links.is_folder(self.staged) else [self.staged]
        others = others or list(no_links.not_files(self.wheels, suffix))
        if others:
            shown = (Path("/tmp") / each.relative_to(self.temporary) for each in others)
            raise left_failure(self, [str(each) for each in shown])
        return sorted(self.wheels.iterdir())

    async def run(
        self,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        *,
        given: bytes = b"",
        writing: bool = False,
    ) -> None:
        """Run a command with the stdin ``given`` and log its output; raise if it fails.

        It fails if it is silent for the builder's ``silence``, unless it is ``writing`` files.
        """
        log = self.builder.place.log(self.name)
        with log.open("a") as file:
            try:
                status = await process.logged(
                    command,
                    file,
                    env=environment or self.environment(),
                    on_line=self.task.line,
                    given=given,
                    patience=process.Patience(self.builder.silence, writing),
                )
            except process.SilentError as error:
                raise silent_failure(self, error.report) from None
        if status:
            raise step_failure(self, status)

    def log_line(self, line: str) -> None:
        """Log a line that the command wrote to a file."""
        with self.builder.place.log(self.name).open("a") as file:
            file.write(f"{line}\n")
        self.task.line(line)

    def environment(self) -> dict[str, str]:
        """Return the environment of the engine."""
        scratch = self.root / "engine"
        scratch.mkdir(parents=True, exist_ok=True)
        places = dict.fromkeys(("APPTAINER_TMPDIR", "SINGULARITY_TMPDIR"), str(scratch))
        return machine.clean_environment() | places

    async def compare(self, draft: Path) -> None:
        """Make a layer of the changes in the sandbox since its last state."""
        places = [str(self.sandbox / "tree"), str(self.sandbox / STATE), str(draft)]
        # Nothing of the host is bound while the base is built.
        mounts = [f"--drop={each}" for each in self.builder.site.folders if self.below]
        await self.module(
            "lumicontainer.build.tree.capture", *places, *mounts, given=masking.dumped()
        )
        if (draft / LEAKS).exists():
            raise leak_failure(self, os.fsdecode((draft / LEAKS).read_bytes()).split("\n"))
        await asyncio.to_thread(remove_tree, self.root)

    async def module(self, name: str, *words: str, given: bytes = b"") -> None:
        """Run a module of this package as root of a user namespace with subordinate ids."""
        await self.namespaced(sys.executable, "-X", "utf8", "-m", name, *words, given=given)

    async def namespaced(self, *command: str, given: bytes = b"") -> None:
        """Run a host command as root of a user namespace with subordinate ids."""
        package = {"PYTHONPATH": str(Path(lumicontainer.__file__).parents[1])}
        environment = {**os.environ, **package}
        await self.run([*user_namespaces.namespace_command(), *command], environment, given=given)


async def listings(run: Run) -> list[Layer]:
    """Return the list of files of each layer below ``run``, the lowest first."""
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


def _listing(path: Path) -> Layer | None:
    try:
        return listing.load(gzip.decompress(path.read_bytes()))
    except (OSError, EOFError, zlib.error, ValueError, TypeError):
        return None


async def squash(
    run: Run, tree: Path, target: Path, offset: int = 0, compression: str = "zstd"
) -> None:
    """Pack a tree and report the progress."""
    command = squashfs.squash_command(tree, target, offset, compression)
    await run.run(command, squashfs.without_epoch(dict(os.environ)))


async def _bootstrap(builder: Builder, task: Task, draft: Path) -> None:
    run = Run(builder, BASE, (), task)
    run.root.mkdir()
    definition, tree = run.root / "base.def", builder.place.sandbox / "tree"
    await asyncio.to_thread(remove_tree, builder.place.sandbox)
    builder.place.sandbox.mkdir()
    bootstrap, site = builder.plan.bootstrap, builder.site
    mirror = ""
    if bootstrap.agent == "debootstrap":
        require_plain_path(builder.place.root)
        mirror = require_mirror(site.mirror)
    image = mirrored_image(bootstrap.image, site.mirrors)
    definition.write_text(render_base(bootstrap._replace(image=image), mirror=mirror))
    environment = {**run.environment(), "SOURCE_DATE_EPOCH": str(EPOCH)}
    if plain_registry(bootstrap.image, site.mirrors):
        environment |= {"APPTAINER_NOHTTPS": "1", "SINGULARITY_NOHTTPS": "1"}
    logs = partial(builder.engine.bootstrap_logs, tree, run.root / "engine")
    # The engine downloads an image silently.
    async with followed(logs, run.log_line):
        await run.run(builder.engine.bootstrap(definition, tree), environment, writing=True)
    no_links.clean_base(tree)
    await run.compare(draft)
    builder.place.sandbox_layers = [draft.name[1:]]
