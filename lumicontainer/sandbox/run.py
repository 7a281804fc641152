"""Run a program in the sandbox of a step, and make a layer of its changes."""

import asyncio
import contextlib
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from pathlib import Path

from lumicontainer.cache.store import Entry
from lumicontainer.core.plan.seal import SEAL
from lumicontainer.host import machine
from lumicontainer.host.site import stage_site
from lumicontainer.sandbox.builder import STAGED, StepRun
from lumicontainer.sandbox.failures import failure
from lumicontainer.sandbox.runtimes.runtime import OWNERS
from lumicontainer.sandbox.tree.capture import LEAKS
from lumicontainer.sandbox.tree.snapshot import STATE
from lumicontainer.sandbox.workspace import remove_tree
from lumicontainer.system import process
from lumicontainer.system.files import foreign, no_links
from lumicontainer.system.terminal import masking
from lumicontainer.system.waiting import task_group


class Run(StepRun):
    """Run one program in the sandbox of a step."""

    async def program(self, text: str, *, wheels: Entry | None = None, packages: str = "") -> None:
        """Run a program in the sandbox; before one that runs as the user, install ``packages``."""
        self.wheels.mkdir(parents=True)
        self.temporary.chmod(0o1777)
        stage_site(self.builder.site, self.staged, f"/tmp/{STAGED}")
        (self.staged / "step.sh").write_text(text)
        (self.staged / "packages.sh").write_text(packages)
        (self.staged / "secrets").mkdir(mode=0o700)
        for secret in self.secret_names:
            (self.staged / "secrets" / secret).touch()
        for wheel in wheels.folder.glob("*.whl") if wheels else ():
            shutil.copyfile(wheel, self.wheels / wheel.name)
        await self.prepare()
        if self.files:
            files = self.root / "files"
            no_links.write_tree(files, self.files)
            await self.as_root(*no_links.copy_command(files, self.sandbox / "tree"))
        settings = [f"LUMICONTAINER_JOBS={self.jobs}"]
        settings += [f"LUMICONTAINER_WHEELS=/tmp/{STAGED}/wheels"]
        settings += [f"LUMICONTAINER_SECRETS=/tmp/{STAGED}/secrets"]
        start = ["/usr/bin/env", *settings, "bash", "-c"]
        script = f". /tmp/{STAGED}/site.sh && exec bash /tmp/{STAGED}/"
        first = [*start, f"{script}packages.sh"] if packages else []
        await self.run(self.command([*start, f"{script}step.sh"], first))

    async def prepare(self) -> None:
        """Make the sandbox contain what the layers below make together."""
        if self.apart and self.builder.runtime.overlays:
            return
        place, below = self.builder.place, [entry.name for entry in self.below]
        if not self.apart and place.sandbox_layers == below:
            return
        tree = self.sandbox / "tree"
        if not tree.exists():
            tree.mkdir(parents=True)
            tree.chmod(0o755)
        if not self.apart:
            place.sandbox_layers = []
        words = map(str, (tree, self.sandbox / STATE, *(each.folder for each in self.below)))
        image = await self._image_words()
        await self.module("lumicontainer.sandbox.tree.checkout", *words, *image)
        if not self.apart:
            place.sandbox_layers = below

    async def _image_words(self) -> list[str]:
        """Return the words that name the data below the layers, if there are any."""
        if not self.image:
            return []
        folder, source = await self.image.read_index(), self.image.source
        return ["--image", str(folder), str(source.path), str(source.offset)]

    def left(self, suffix: str = "") -> list[Path]:
        """Take the files in the folder for wheels; raise ``StepError`` for other entries."""
        place, inside = self.root / "left", f"{STAGED}/wheels"
        try:
            files = foreign.take(self.temporary, inside, place)
            others = [each for each in files if "/" in each or not each.endswith(suffix)]
        except foreign.OddFilesError as error:
            others = error.paths
        if others:
            raise failure.left_failure(self, [str(Path("/tmp") / inside / each) for each in others])
        return [place / each for each in sorted(files)]

    async def run(
        self,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        *,
        given: Awaitable[bytes] | None = None,
        writing: bool = False,
    ) -> None:
        """Run a command with the stdin ``given`` and log its output; raise if it fails.

        It fails when the builder's ``patience`` ends. A program that is ``writing`` files is not
        silent.
        """
        log = self.builder.place.log(self.name)
        with log.open("a") as file:
            try:
                status = await process.run_logged(
                    command,
                    file,
                    env=environment or self.environment(),
                    on_line=self.task.line,
                    given=given,
                    patience=self.builder.patience._replace(writing=writing),
                    on_cut=self._say_cut,
                )
            except process.SilentError as error:
                raise failure.silent_failure(self, str(error)) from None
            except process.OverdueError as error:
                raise failure.overdue_failure(self, str(error)) from None
        if status:
            if self.image:  # A step fails on a base that is removed or cut short meanwhile.
                self.image.require_unchanged()
            raise failure.step_failure(self, status)

    def _say_cut(self) -> None:
        text = "its log keeps only the beginning and the end of its output, which is very long"
        self.builder.progress.say(f"{self.name}: {text}")

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

    @contextlib.asynccontextmanager
    async def capturing(self, draft: Path) -> AsyncIterator[None]:
        """Make a layer of the changes in the sandbox, which the body of the context makes.

        The last state of the sandbox, which must be prepared, is read beside them.
        """
        secrets = asyncio.get_running_loop().create_future()
        async with task_group() as group:
            group.create_task(self._capture(draft, secrets))
            yield
            secrets.set_result(masking.dumped())
        if (draft / LEAKS).exists():
            raise failure.leak_failure(self, os.fsdecode((draft / LEAKS).read_bytes()).split("\n"))
        await asyncio.to_thread(remove_tree, self.root)

    async def _capture(self, draft: Path, secrets: Awaitable[bytes]) -> None:
        places = [str(self.sandbox / "tree"), str(self.sandbox / STATE), str(draft)]
        # Nothing of the host is bound while the base is built.
        mounts = [f"--drop={each}" for each in self.builder.site.folders if self.below]
        owners = f"--owners={self.root / OWNERS}"
        options = self._of_the_seal() if self.name == SEAL else []
        name = "lumicontainer.sandbox.tree.capture"
        await self.module(name, *places, owners, *options, *mounts, given=secrets)

    def _of_the_seal(self) -> list[str]:
        binds = self.builder.plan.resolved.binds()
        return ["--clear-setuid", *(f"--keep={bind.path}" for bind in binds)]

    async def module(self, name: str, *words: str, given: Awaitable[bytes] | None = None) -> None:
        """Run a module of this package that reads and writes the tree."""
        await self.as_root(*process.module_command(name, *words), given=given)

    async def as_root(self, *command: str, given: Awaitable[bytes] | None = None) -> None:
        """Run a host command that reads and writes the tree."""
        prefix = self.builder.runtime.as_root(*self.writes)
        await self.run([*prefix, *command], os.environ, given=given)
