"""Make layers: the base by the engine's bootstrap, each step in an overlay upon what is below."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any

import lumicontainer
from lumicontainer.build.builder import STAGED, Builder, Stack
from lumicontainer.build.cache import store as cache
from lumicontainer.build.cache.store import Entry
from lumicontainer.build.failures.debootstrap_log import followed
from lumicontainer.build.failures.failure import (
    leak_failure,
    left_failure,
    silent_failure,
    step_failure,
)
from lumicontainer.build.sandbox import ground_of
from lumicontainer.build.secrets import leaks
from lumicontainer.build.tree.capture import LEAKS
from lumicontainer.build.tree.snapshot import STATE
from lumicontainer.build.workspace import remove_tree
from lumicontainer.core.plan.plan import BASE, EPOCH, Compile, Step
from lumicontainer.core.render.render import render_base
from lumicontainer.host import machine
from lumicontainer.host.mirrors import mirrored_image, plain_registry
from lumicontainer.host.site import require_mirror, stage_site
from lumicontainer.image import squashfs
from lumicontainer.system import flock, process, user_namespaces
from lumicontainer.system.files import no_links
from lumicontainer.system.terminal import masking
from lumicontainer.system.terminal.progress import Task
from lumicontainer.system.waiting import POLL, locked, uninterrupted


async def begin(builder: Builder) -> None:
    """Prove the layers that the cache has, and bring the tree to those that are whole.

    Squashfs has no sums: what is unpacked unproven may be wrong, and stay so in the tree.
    """
    stack = () if builder.fresh else builder.cached()
    held = [await _use(builder, entry.name) for entry in stack]
    room = asyncio.Semaphore(2)

    async def prove(name: str) -> Entry | None:
        async with room:
            return await asyncio.to_thread(builder.cache.proven, name)

    found = await asyncio.gather(*(prove(entry.name) for entry in stack))
    for lock, proven in zip(held, found, strict=True):
        if proven is None:
            _let_go(builder, lock)
    whole = tuple(entry for entry in takewhile(bool, found) if entry)
    builder.proven.update({entry.name: entry for entry in found if entry})
    if whole and len(whole) <= len(builder.plan.steps):
        if _is_made_elsewhere(builder, whole):
            builder.progress.cached("unpack", "not needed: another build makes the next step")
            return
        with builder.progress.step("unpack") as task:
            await Run(builder, "unpack", whole, task).ground.prepare()


def _is_made_elsewhere(builder: Builder, below: Stack) -> bool:
    """Tell whether another build makes the step upon ``below`` at this moment."""
    step = builder.plan.steps[len(below) - 1]
    held = flock.exclusive(builder.cache.make_lock(cache.object_name(step.key, below[-1].tree)))
    if held is not None:
        os.close(held)
    return held is None


async def base_layer(builder: Builder) -> Entry:
    """Return the layer of the base."""
    plan = builder.plan
    about: dict[str, Any] = {"step": BASE, "kind": "layer", "key": plan.base_key, "parent": ""}
    about["inputs"] = dict(plan.base_inputs)
    return await _made(builder, BASE, about, lambda task, draft: _bootstrap(builder, task, draft))


async def step_layer(builder: Builder, step: Step, below: Stack, wheels: Entry | None) -> Entry:
    """Return the layer of a step upon the layers ``below`` it."""

    async def make(task: Task, draft: Path) -> None:
        run = Run(builder, step.name, below, task, secrets=step.secrets)
        await run.program(step.program, wheels=wheels)
        await run.compare(draft)
        builder.place.ground_holds = [*(entry.name for entry in below), draft.name[1:]]

    return await _made(builder, step.name, _about(step, "layer", below), make)


async def wheels(builder: Builder, compiled: Compile, below: Stack) -> Entry:
    """Return the wheels of a layer, compiled upon the layers ``below``."""

    async def make(task: Task, draft: Path) -> None:
        run = Run(builder, shown, below, task, apart=True, secrets=compiled.secrets)
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
    """Return an object from the cache, else make it, once among all builds of this user."""
    store = builder.cache
    name = cache.object_name(about["key"], about["parent"])
    if entry := await _found(builder, name):
        builder.progress.cached(shown)
        return entry
    with builder.progress.step(shown) as task:
        async with locked(store.make_lock(name), task) as others:
            # Another build may have made it between the look and the lock.
            if entry := await _found(builder, name):
                task.found(f"made by {others or 'another build'}")
                return entry
            began = time.monotonic()
            draft = store.draft(name)
            try:
                await make(task, draft)
                builder.place.drop_log(shown)
                told = {**about, "seconds": round(time.monotonic() - began, 1)}
                async with _unused(builder, name, task):
                    return await uninterrupted(store.store, draft, told)
            finally:
                shutil.rmtree(draft, ignore_errors=True)


async def _found(builder: Builder, name: str) -> Entry | None:
    """Return an object of the cache, kept from being pruned until the build ends.

    Of what is not there no lock is kept: who makes it anew waits until nobody uses it. A build that
    makes all anew takes what another made since it began, or the two would wait for each other.
    """
    store = builder.cache
    if builder.fresh and not store.made_since(name, builder.began):
        return None
    held = await _use(builder, name)
    entry = builder.proven.get(name) or await asyncio.to_thread(store.proven, name)
    if entry is None:
        _let_go(builder, held)
    return entry


async def _use(builder: Builder, name: str) -> int:
    """Keep an object from being pruned until the build ends; return what holds its lock."""
    while (held := flock.shared(builder.cache.use_lock(name))) is None:
        await asyncio.sleep(POLL)
    builder.place.held.append(held)
    return held


def _let_go(builder: Builder, held: int) -> None:
    builder.place.held.remove(held)
    os.close(held)


@contextlib.asynccontextmanager
async def _unused(builder: Builder, name: str, task: Task) -> AsyncIterator[None]:
    """Wait until nobody uses what is made anew, so that it can be replaced; then use it.

    What another build has proven has to stay as it is until that build ends.
    """
    if not builder.fresh:
        await _use(builder, name)
        yield
        return
    while (held := flock.exclusive(path := builder.cache.use_lock(name))) is None:
        task.waiting(f"waiting for {flock.users(path)}, which uses what is there now")
        await asyncio.sleep(POLL)
    task.waiting("")
    builder.place.held.append(held)
    try:
        yield
    finally:
        flock.share(held)


class Run:
    """Carry out one program upon layers, in a folder of its own in the build's workspace."""

    def __init__(
        self,
        builder: Builder,
        name: str,
        below: Stack,
        task: Task,
        *,
        apart: bool = False,
        secrets: Sequence[str] = (),
    ) -> None:
        self.builder, self.name, self.below, self.task = builder, name, below, task
        self.output: Path | None = None
        self.secrets = {secret: builder.secrets[secret] for secret in secrets}
        # Beside them lie folders and files of the build itself, whose names a layer may have.
        self.root = builder.place.root / f"step-{name.replace(': ', '.')}"
        self.temporary = self.root / "tmp"
        self.staged = self.temporary / STAGED
        self.wheels = self.staged / "wheels"
        self.ground = ground_of(self, apart=apart)

    async def program(self, text: str, *, wheels: Entry | None = None) -> None:
        """Run a step's program as root of the container."""
        self.wheels.mkdir(parents=True)
        self.temporary.chmod(0o1777)
        stage_site(self.builder.site, self.staged, f"/tmp/{STAGED}")
        (self.staged / "step.sh").write_text(text)
        (self.staged / "secrets").mkdir(mode=0o700)
        for secret in self.secrets:
            (self.staged / "secrets" / secret).touch()
        for wheel in wheels.folder.glob("*.whl") if wheels else ():
            shutil.copyfile(wheel, self.wheels / wheel.name)
        await self.ground.prepare()
        settings = [f"LUMICONTAINER_JOBS={self.builder.jobs}"]
        settings += [f"LUMICONTAINER_WHEELS=/tmp/{STAGED}/wheels"]
        settings += [f"LUMICONTAINER_SECRETS=/tmp/{STAGED}/secrets"]
        script = f". /tmp/{STAGED}/site.sh && exec bash /tmp/{STAGED}/step.sh"
        inside = ["/usr/bin/env", *settings, "bash", "-c", script]
        await self.run(self.ground.command(inside))

    def left(self, suffix: str = "") -> list[Path]:
        """Return the files that the program left in the folder for wheels.

        Raises ``StepError`` where there is anything else.
        """
        others = [] if no_links.is_folder(self.staged) else [self.staged]
        others = others or list(no_links.not_files(self.wheels, suffix))
        if others:
            shown = (Path("/tmp") / each.relative_to(self.temporary) for each in others)
            raise left_failure(self, [str(each) for each in shown])
        return sorted(self.wheels.iterdir())

    def binds(self) -> dict[Path, str]:
        """Return what of the host the program sees, and where."""
        seen = {path: f"/tmp/{STAGED}/secrets/{name}" for name, path in self.secrets.items()}
        return {folder: str(folder) for folder in self.builder.site.folders} | seen

    async def run(
        self,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        *,
        given: bytes = b"",
        writing: bool = False,
    ) -> None:
        """Run a command with its output in the step's log; raise where it fails.

        Without output for the builder's ``silence`` it fails, too, unless it is ``writing`` files.
        ``given`` is its stdin.
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

    def heard(self, line: str) -> None:
        """Take a line that the command wrote elsewhere than to its output."""
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
        """Make the layer of what was changed in the tree since its state was noted."""
        ground = self.builder.place.ground
        places = [str(ground / "tree"), str(ground / STATE), str(draft)]
        words = [*places, *self._dropped()]
        await self.module("lumicontainer.build.tree.capture", *words, given=masking.dumped())
        if (draft / LEAKS).exists():
            raise leak_failure(self, os.fsdecode((draft / LEAKS).read_bytes()).split("\n"))
        await asyncio.to_thread(remove_tree, self.root)

    def _dropped(self) -> list[str]:
        """Return the options that say which folders are none of a layer's."""
        # While the base is made nothing of the host is bound: its empty folders are its own.
        mounts = self.builder.site.folders if self.below else ()
        return [f"--drop={folder}" for folder in mounts]

    async def module(self, name: str, *words: str, given: bytes = b"") -> None:
        """Run a module of this package as root of a namespace with the build's ids."""
        await self.namespaced(sys.executable, "-X", "utf8", "-m", name, *words, given=given)

    async def namespaced(self, *command: str, given: bytes = b"") -> None:
        """Run a command of the host as root of a namespace with the build's ids."""
        package = {"PYTHONPATH": str(Path(lumicontainer.__file__).parents[1])}
        environment = {**os.environ, **package}
        await self.run([*user_namespaces.namespace_command(), *command], environment, given=given)


async def squash(
    run: Run, tree: Path, target: Path, offset: int = 0, compression: str = "zstd"
) -> None:
    """Pack a tree, and tell how far it is."""
    command = squashfs.squash_command(tree, target, offset, compression)
    await run.run(command, squashfs.without_epoch(dict(os.environ)))


async def _bootstrap(builder: Builder, task: Task, draft: Path) -> None:
    run = Run(builder, BASE, (), task)
    run.root.mkdir()
    definition, tree = run.root / "base.def", builder.place.ground / "tree"
    await asyncio.to_thread(remove_tree, builder.place.ground)
    builder.place.ground.mkdir()
    bootstrap, site = builder.plan.bootstrap, builder.site
    mirror = require_mirror(site.mirror) if bootstrap.agent == "debootstrap" else ""
    image = mirrored_image(bootstrap.image, site.mirrors)
    definition.write_text(render_base(bootstrap._replace(image=image), mirror=mirror))
    environment = {**run.environment(), "SOURCE_DATE_EPOCH": str(EPOCH)}
    if plain_registry(bootstrap.image, site.mirrors):
        environment |= {"APPTAINER_NOHTTPS": "1", "SINGULARITY_NOHTTPS": "1"}
    logs = partial(builder.engine.bootstrap_logs, tree, run.root / "engine")
    # The engine fetches an image without a word.
    async with followed(logs, run.heard):
        await run.run(builder.engine.bootstrap(definition, tree), environment, writing=True)
    no_links.clean_base(tree)
    await run.compare(draft)
    builder.place.ground_holds = [draft.name[1:]]
