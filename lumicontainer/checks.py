"""Run the checks of an image's layers in the packed image."""

from __future__ import annotations

import asyncio
import hashlib
import io
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lumicontainer import failure, machine, process
from lumicontainer.errors import ExaminedError, Problem
from lumicontainer.failure import last_lines
from lumicontainer.layers import Builder, Stack, together
from lumicontainer.plan import HOME, Plan
from lumicontainer.progress import Task

SKIPPED = 77
"""The exit code of a check that cannot be made on this machine, once it has printed the reason: it
has not held, and is made again in every build."""


async def hold(builder: Builder, stack: Stack, partial: Path, *, every: bool) -> None:
    """Run checks in the packed image; raise with all that fail.

    Unless ``every`` is set, those are left out that held before with the same layers below.
    """
    waiting = list(checks_of(builder.plan, stack))
    due = [check for check in waiting if every or not builder.cache.holds(check.mark)]
    with builder.progress.step("check") as task:
        if len(due) < len(waiting):
            builder.progress.say(
                f"{len(waiting) - len(due)} checks of unchanged layers held before"
            )
        room = asyncio.Semaphore(2)
        async with together() as group:
            results = [
                group.create_task(_hold(builder, check, partial, task, room)) for check in due
            ]
    problems = [problem for result in results if (problem := result.result())]
    if problems:
        raise _refused(builder, partial, problems)


@dataclass(frozen=True)
class Check:
    """Hold one check of an image, and the mark under which it is noted that it held."""

    name: str
    command: tuple[str, ...]
    mark: str


def checks_of(plan: Plan, stack: Stack) -> Iterator[Check]:
    """Yield the checks of an image; a mark covers the check, its layer and all below it."""
    digests = {entry.step: entry.digest for entry in stack}
    below = stack[0].digest
    top = stack[-1].digest
    yield Check(
        "lumi-entry", (f"{HOME}/bin/lumi-entry", "--version"), _mark("lumi-entry", b"", top)
    )
    for layer in plan.resolved.included():
        below = digests.get(layer.name, below)
        for check in layer.checks:
            name = check.name.removeprefix("checks/")
            interpreter = "python3" if name.endswith(".py") else "bash"
            command = (interpreter, f"{HOME}/checks/{layer.name}/{name}")
            shown = f"{layer.name}/{name}"
            yield Check(shown, command, _mark(shown, check.content, below))


def _mark(name: str, content: bytes, digest: str) -> str:
    return hashlib.sha256(b"\0".join((name.encode(), digest.encode(), content))).hexdigest()


async def _hold(
    builder: Builder, check: Check, image: Path, task: Task, room: asyncio.Semaphore
) -> Problem | None:
    """Run one check; return what is wrong, or nothing where it holds or is skipped."""
    command = builder.engine.execute(image, check.command, binds=())
    async with room:
        task.line(check.name)
        said = io.StringIO()  # Tree, layers and image fill the disk: what holds leaves no log.
        status = await process.logged(command, said, env=machine.clean_environment())
    if not status:
        builder.cache.note_held(check.mark)
        return None
    if status == SKIPPED:
        builder.progress.say(f"check skipped: {check.name}: {last_lines(said.getvalue())}")
        return None
    builder.place.log(f"check-{check.name.replace('/', '-')}").write_text(said.getvalue())
    what = f"the check '{check.name}' does not hold ({process.describe(status)})"
    return Problem(what, process.quoted(check.command), why=last_lines(said.getvalue()))


def _refused(builder: Builder, partial: Path, problems: Sequence[Problem]) -> ExaminedError:
    kept = builder.place.root / "image.sif"
    shutil.copyfile(partial, kept)
    command = builder.engine.execute(kept, ["bash"], binds=())
    how = failure.keep(builder, "check", builder.place.root / "logs", command)
    mend = f"the image is kept: {kept}\n{how}"
    return ExaminedError(*problems, Problem("the image was not put in place", mend=mend))
