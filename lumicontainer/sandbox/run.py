"""Run a program in the sandbox of a step, and make a layer of its changes."""

import asyncio
import contextlib
import functools
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from pathlib import Path

from lumicontainer.cache.objects import Entry
from lumicontainer.constants import ENGINE_PREFIXES
from lumicontainer.core.plan.seal import SEAL
from lumicontainer.host import machine
from lumicontainer.host.site import stage_site
from lumicontainer.sandbox.failures import failure
from lumicontainer.sandbox.runtimes.runtime import OWNERS
from lumicontainer.sandbox.step_run import STAGED, StepRun
from lumicontainer.sandbox.tree.capture import LEAKS
from lumicontainer.sandbox.tree.snapshot import STATE
from lumicontainer.sandbox.workspace import remove_tree
from lumicontainer.system import process
from lumicontainer.system.files import foreign, no_links
from lumicontainer.system.programs import logged
from lumicontainer.system.terminal import masking
from lumicontainer.system.waiting import task_group


async def run_program(
    run: StepRun, text: str, *, wheels: Entry | None = None, packages: str = ""
) -> None:
    """Run a program in the sandbox; before one that runs as the user, install ``packages``."""
    run.wheels.mkdir(parents=True)
    run.temporary.chmod(0o1777)
    stage_site(run.builder.site, run.staged, f"/tmp/{STAGED}")
    (run.staged / "step.sh").write_text(text)
    (run.staged / "packages.sh").write_text(packages)
    (run.staged / "secrets").mkdir(mode=0o700)
    for secret in run.secret_names:
        (run.staged / "secrets" / secret).touch()
    for wheel in wheels.folder.glob("*.whl") if wheels else ():
        shutil.copyfile(wheel, run.wheels / wheel.name)
    await prepare_sandbox(run)
    if run.files:
        files = run.root / "files"
        no_links.write_tree(files, run.files)
        await run_as_root(run, *no_links.copy_command(files, run.sandbox / "tree"))
    settings = [f"LUMICONTAINER_JOBS={run.jobs}"]
    settings += [f"LUMICONTAINER_WHEELS=/tmp/{STAGED}/wheels"]
    settings += [f"LUMICONTAINER_SECRETS=/tmp/{STAGED}/secrets"]
    # The order of a set in Python is another one in each process, and gets into DeepSpeed's wheel.
    settings += ["PYTHONHASHSEED=0"]
    start = ["/usr/bin/env", *settings, "bash", "-c"]
    script = f". /tmp/{STAGED}/site.sh && exec bash /tmp/{STAGED}/"
    first = [*start, f"{script}packages.sh"] if packages else []
    await run_command(run, run.command([*start, f"{script}step.sh"], first))


async def prepare_sandbox(run: StepRun) -> None:
    """Make the sandbox contain what the layers below make together."""
    if run.apart and run.builder.runtime.overlays:
        return
    place, below = run.builder.place, [entry.name for entry in run.below]
    if not run.apart and place.sandbox_layers == below:
        return
    tree = run.sandbox / "tree"
    if not tree.exists():
        tree.mkdir(parents=True)
        tree.chmod(0o755)
    if not run.apart:
        place.sandbox_layers = []
    words = map(str, (tree, run.sandbox / STATE, *(each.folder for each in run.below)))
    image = await _read_image_words(run)
    await run_module(run, "lumicontainer.sandbox.tree.checkout", *words, *image)
    if not run.apart:
        place.sandbox_layers = below


async def _read_image_words(run: StepRun) -> list[str]:
    """Return the words that name the data below the layers, if there are any."""
    if not run.image:
        return []
    folder, source = await run.image.read_index(), run.image.source
    return ["--image", str(folder), str(source.path), str(source.offset)]


def take_files(run: StepRun, suffix: str = "") -> list[Path]:
    """Take the files in the folder for wheels; raise ``StepError`` for other entries."""
    place, inside = run.root / "left", f"{STAGED}/wheels"
    try:
        files = foreign.take(run.temporary, inside, place)
        others = [each for each in files if "/" in each or not each.endswith(suffix)]
    except foreign.OddFilesError as error:
        others = error.paths
    if others:
        raise failure.left_failure(run, [str(Path("/tmp") / inside / each) for each in others])
    return [place / each for each in sorted(files)]


async def run_command(
    run: StepRun,
    command: Sequence[str],
    environment: Mapping[str, str] | None = None,
    *,
    stdin: Awaitable[bytes] | None = None,
    writing: bool = False,
) -> None:
    """Run a command that reads ``stdin`` and log its output; raise if it fails.

    It fails when the builder's ``patience`` ends. A program that is ``writing`` files is not
    silent.
    """
    log = run.builder.place.log(run.name)
    with log.open("a") as file:
        try:
            status = await logged.run_logged(
                command,
                file,
                env=environment or make_environment(run),
                on_line=run.task.line,
                stdin=stdin,
                patience=run.builder.patience._replace(writing=writing),
                on_cut=functools.partial(_say_cut, run),
            )
        except logged.SilentError as error:
            raise failure.silent_failure(run, str(error)) from None
        except logged.OverdueError as error:
            raise failure.overdue_failure(run, str(error)) from None
        except logged.ExcessError as error:
            raise failure.excess_failure(run, str(error)) from None
    if status:
        if run.image:  # A step fails on a base that is removed or cut short meanwhile.
            run.image.require_unchanged()
        raise failure.step_failure(run, status)


def _say_cut(run: StepRun) -> None:
    text = "its log keeps only the beginning and the end of its output, which is very long"
    run.builder.progress.say(f"{run.name}: {text}")


def log_line(run: StepRun, line: str) -> None:
    """Log a line that the command wrote to a file."""
    with run.builder.place.log(run.name).open("a") as file:
        file.write(f"{line}\n")
    run.task.line(line)


def make_environment(run: StepRun) -> dict[str, str]:
    """Return the environment of the engine."""
    scratch = run.root / "engine"
    scratch.mkdir(parents=True, exist_ok=True)
    places = {f"{prefix}_TMPDIR": str(scratch) for prefix in ENGINE_PREFIXES}
    return machine.clean_environment() | places


@contextlib.asynccontextmanager
async def capturing(run: StepRun, draft: Path) -> AsyncIterator[None]:
    """Make a layer of the changes in the sandbox, which the body of the context makes.

    The last state of the sandbox, which must be prepared, is read in addition to them.
    """
    secrets = asyncio.get_running_loop().create_future()
    async with task_group() as group:
        group.create_task(_capture(run, draft, secrets))
        yield
        secrets.set_result(masking.dumped())
    if (draft / LEAKS).exists():
        raise failure.leak_failure(run, os.fsdecode((draft / LEAKS).read_bytes()).split("\n"))
    await asyncio.to_thread(remove_tree, run.root)


async def _capture(run: StepRun, draft: Path, secrets: Awaitable[bytes]) -> None:
    places = [str(run.sandbox / "tree"), str(run.sandbox / STATE), str(draft)]
    # Nothing of the host is bound while the base is built.
    mounts = [f"--drop={each}" for each in run.builder.site.folders if run.below]
    owners = f"--owners={run.root / OWNERS}"
    options = _options_of_seal(run) if run.name == SEAL else []
    name = "lumicontainer.sandbox.tree.capture"
    await run_module(run, name, *places, owners, *options, *mounts, stdin=secrets)


def _options_of_seal(run: StepRun) -> list[str]:
    binds = run.builder.plan.resolved.binds()
    return ["--clear-setuid", *(f"--keep={bind.path}" for bind in binds)]


async def run_module(
    run: StepRun, name: str, *words: str, stdin: Awaitable[bytes] | None = None
) -> None:
    """Run a module of this package that reads and writes the tree."""
    await run_as_root(run, *process.module_command(name, *words), stdin=stdin)


async def run_as_root(run: StepRun, *command: str, stdin: Awaitable[bytes] | None = None) -> None:
    """Run a host command that reads and writes the tree."""
    prefix = run.builder.runtime.as_root(*run.writes)
    await run_command(run, [*prefix, *command], os.environ, stdin=stdin)
