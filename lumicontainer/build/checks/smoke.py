"""Run the checks of an image in it, once it is packed."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lumicontainer.build.builder import Builder, Stack
from lumicontainer.build.failures import failure
from lumicontainer.build.failures.failure import last_lines
from lumicontainer.core.model import Check, Checks
from lumicontainer.core.model.check import LEVELS
from lumicontainer.core.plan.plan import VERIFY, Plan
from lumicontainer.errors import EXAMINED_FAILED, ExaminedError, Problem
from lumicontainer.host import machine
from lumicontainer.inside.checking import HOST_PATHS
from lumicontainer.system import process
from lumicontainer.system.files.user_cache import cache_root
from lumicontainer.system.terminal import masking
from lumicontainer.system.terminal.progress import Task
from lumicontainer.system.waiting import locked

PASSED, SKIPPED = "passed", "skipped"
"""States of a check in what lumi-verify tells."""


async def hold(builder: Builder, stack: Stack, partial: Path, *, every: bool) -> None:
    """Run checks in the packed image; raise with all that fail.

    Unless ``every`` is set, those are left out that held before with the same layers; of builds of
    the same layers at the same time one runs them.
    """
    with builder.progress.step("check") as task:
        async with locked(builder.cache.make_lock(f"check-{stack[-1].tree}"), task):
            waiting = list(checks_of(builder.plan, stack))
            due = [one for one in waiting if every or not builder.cache.holds(one.mark)]
            if len(due) < len(waiting):
                builder.progress.say(
                    f"{len(waiting) - len(due)} checks of unchanged layers held before"
                )
            if due:
                await _run(builder, partial, due, task)


async def _run(builder: Builder, partial: Path, due: Sequence[Due], task: Task) -> None:
    command = verify_command(builder, partial, [one.check.name for one in due])
    said = io.StringIO()  # Tree, layers and image fill the disk: what holds leaves no log.
    with tempfile.TemporaryFile() as told:
        status = await process.logged(
            command, said, env=machine.clean_environment(), on_line=task.line, result=told
        )
        told.seek(0)
        found = told.read()
    if status not in (0, EXAMINED_FAILED) or not found:
        _log(builder, "check", said.getvalue())
        what = f"the image cannot be checked ({process.describe(status)})"
        _, refusal = _refused(builder, partial)
        raise ExaminedError(Problem(what, why=last_lines(said.getvalue())), refusal)
    failed = _failed(builder, due, json.loads(found)["checks"])
    if failed:
        kept, refusal = _refused(builder, partial)
        raise ExaminedError(*(_problem(builder, *each, kept=kept) for each in failed), refusal)


@dataclass(frozen=True)
class Due:
    """Hold one check of an image, and the mark under which it is noted that it held."""

    check: Check
    mark: str


def checks_of(plan: Plan, stack: Stack) -> Iterator[Due]:
    """Yield the quick checks of an image; a mark covers the check, its layer and all below it.

    A check that is no layer's is about the whole image, so its mark covers all layers.
    """
    trees = {entry.step: entry.tree for entry in stack}
    below = stack[0].tree
    for layer in plan.resolved.included():
        below = trees.get(layer.name, below)
        yield from _due(layer.checks, below)
    yield from _due(plan.resolved.checks, stack[-1].tree)


def _due(checks: Checks, tree: str) -> Iterator[Due]:
    own = {check.file.name for check in checks.each}
    common = [file.content for file in checks.files if file.name not in own]
    for check in checks.each:
        if check.level == LEVELS[0]:
            parts = (check.name.encode(), tree.encode(), check.file.content, *common)
            yield Due(check, hashlib.sha256(b"\0".join(parts)).hexdigest())


def verify_command(builder: Builder, image: Path, names: Sequence[str]) -> list[str]:
    """Return the command that runs the named checks, and prints what came of them as JSON."""
    chosen = [word for name in names for word in ("-k", name)]
    words = [VERIFY, "--json", "-", *chosen]
    environment = {HOST_PATHS: _host_paths(builder)}
    return builder.engine.execute(image, words, binds=(), environment=environment)


def _host_paths(builder: Builder) -> str:
    return ":".join(map(str, (builder.place.root.parent, cache_root())))


def _failed(
    builder: Builder, due: Sequence[Due], rows: Sequence[Mapping[str, Any]]
) -> list[tuple[Check, Mapping[str, Any]]]:
    """Note the checks that held, tell of those that were skipped, return the others."""
    states = {row["name"]: row for row in rows}
    failed = []
    for one in due:
        row = states[one.check.name]
        if row["state"] == PASSED:
            builder.cache.note_held(one.mark)
        elif row["state"] == SKIPPED:
            builder.progress.say(f"check skipped: {row['name']}: {row['reason']}")
        else:
            _log(builder, f"check-{row['name'].replace('/', '-')}", row["output"])
            failed.append((one.check, row))
    return failed


def _problem(
    builder: Builder, check: Check, row: Mapping[str, Any], *, kept: Path | None
) -> Problem:
    """Return the problem of a check that does not hold, with the command that makes it again."""
    hint = row["hint"]
    if kept:
        # A check that looks for the folders of a build is told of them only there.
        looks = b"HOST_PATHS" in check.file.content
        told = f"{HOST_PATHS}={shlex.quote(_host_paths(builder))} " if looks else ""
        hint = f"{hint}\nrun the check again: {told}{rerun_command(kept, check.name)}"
    return Problem(
        f"the check '{check.name}' does not hold: {check.summary}", "", row["reason"], hint
    )


def _log(builder: Builder, name: str, text: str) -> None:
    # What fails is told all the same where the disk is full.
    with contextlib.suppress(OSError):
        builder.place.log(name).write_text(masking.masked(text))


def _refused(builder: Builder, partial: Path) -> tuple[Path | None, Problem]:
    """Keep an image that fails its checks; return where, and the problem that says so."""
    kept = builder.place.root / "image.sif"
    try:
        shutil.copyfile(partial, kept)
        command = builder.engine.execute(kept, ["bash"], binds=())
        how = failure.keep(builder, "check", builder.place.root / "logs", command)
    except OSError as error:
        builder.place.keep = False
        hint = (
            f"the image is not kept: {builder.place.root.parent}: {error.strerror}\n"
            "make room, or name another place with LUMICONTAINER_TMPDIR, to have it kept"
        )
        return None, Problem("the image was not put in place", hint=hint)
    hint = f"the image is kept: {kept}\n{how}"
    return kept, Problem("the image was not put in place", hint=hint)


def rerun_command(image: Path, name: str, options: Sequence[str] = ()) -> str:
    """Return the command line that runs one check of an image."""
    return process.quoted(["lumicontainer", "verify", str(image), *options, "-k", name])
