"""Run the checks of a packed image in it."""

import asyncio
import contextlib
import io
import shlex
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from lumicontainer.building.checks import marks
from lumicontainer.building.checks.marks import Due
from lumicontainer.building.checks.reading import PackedFiles, Reading, read_packed
from lumicontainer.constants import VERIFY
from lumicontainer.core.model import Check
from lumicontainer.errors import EXAMINED_FAILED, ExaminedError, HostError, Problem
from lumicontainer.host import machine
from lumicontainer.image.records import read_results
from lumicontainer.inside.checking import HOST_PATHS
from lumicontainer.sandbox.builder import Builder, Stack
from lumicontainer.sandbox.failures import failure
from lumicontainer.sandbox.failures.scrub import IMAGE
from lumicontainer.system import budget, process
from lumicontainer.system.files.user_cache import cache_root
from lumicontainer.system.programs import logged
from lumicontainer.system.terminal import masking
from lumicontainer.system.terminal.progress import Task
from lumicontainer.system.waiting import wait_for_lock

PASSED, SKIPPED = "passed", "skipped"
Row: TypeAlias = Mapping[str, Any]
"""A check with its result, as lumi-verify reports it."""


async def require_checks(
    builder: Builder, stack: Stack, partial: Path, packed: PackedFiles
) -> None:
    """Run the checks of the packed image; raise ``ExaminedError`` with all that fail.

    Checks that passed before with the same layers, or with the same files of those that they read,
    are skipped. Of several builds with the same layers, one at a time runs them.
    """
    with builder.progress.step("check") as task:
        async with wait_for_lock(builder.cache.make_lock(f"check-{stack[-1].tree}"), task):
            plan, cache = builder.plan, builder.cache
            words = (packed, marks.quick_checks(plan))
            reading = await asyncio.to_thread(read_packed, *words)
            waiting = list(marks.checks_of(plan, stack, reading.digests, _host_paths(builder)))
            due = [one for one in waiting if not marks.has_passed(cache, one, reading)]
            if len(due) < len(waiting):
                builder.progress.say(
                    f"{len(waiting) - len(due)} checks passed before, with the same files"
                )
            if due:
                await _run(builder, partial, due, task, reading)
    if unproven := builder.runtime.unproven:
        builder.progress.say(f"not checked: {unproven}")


async def _run(
    builder: Builder, partial: Path, due: Sequence[Due], task: Task, reading: Reading
) -> None:
    chosen = marks.environment_of(builder.cache, due, reading)
    command = verify_command(builder, partial, [one.check.name for one in due], chosen)
    output = io.StringIO()  # In memory: successful checks leave no log on a full disk.
    with tempfile.TemporaryFile() as report:
        try:
            status = await logged.run_logged(
                command,
                output,
                env=machine.clean_environment(),
                on_line=task.line,
                result=report,
                limits=budget.report_of(one.check.timeout_seconds for one in due),
            )
            why = ""
        except process.OverLimitError as error:
            status, why = -1, error.problems[0].why
        report.seek(0)
        rows = _read_rows(report.read(), due)
    if status not in (0, EXAMINED_FAILED) or rows is None:
        _log(builder, "check", output.getvalue())
        _, refusal = _refused(builder, partial)
        how = "printed no report of its checks" if rows is None else "ended with an unknown status"
        why = why or f"lumi-verify {how} ({process.describe(status)})"
        why = f"{why}\n{process.last_lines(output.getvalue())}".rstrip()
        raise ExaminedError(Problem("cannot check the image", why=why), refusal)
    failed = _failed(builder, due, rows, reading)
    if failed:
        kept, refusal = _refused(builder, partial)
        raise ExaminedError(*(_problem(builder, *each, kept=kept) for each in failed), refusal)


def _read_rows(text: bytes, due: Sequence[Due]) -> Sequence[Row] | None:
    """Return the rows of a report; None if it is not a report of all checks.

    The programs of a base that others built can print anything.
    """
    rows: Sequence[Row] = (read_results(text) or {}).get("checks", ())
    return rows if {one.check.name for one in due} <= {row["name"] for row in rows} else None


def verify_command(
    builder: Builder, image: Path, names: Sequence[str], more: Mapping[str, str] = {}
) -> list[str]:
    """Return the command that runs the named checks and prints the results as JSON.

    They get the variables ``more``.
    """
    chosen = [word for name in names for word in ("-k", name)]
    words = [VERIFY, "--json", "-", *chosen]
    environment = {HOST_PATHS: _host_paths(builder), **more}
    return builder.runtime.check(image, builder.place.sandbox / "tree", words, environment)


def _host_paths(builder: Builder) -> str:
    return ":".join(map(str, (builder.place.root.parent, cache_root())))


def _failed(
    builder: Builder, due: Sequence[Due], rows: Sequence[Row], reading: Reading
) -> list[tuple[Check, Row]]:
    """Record the passed checks, report the skipped ones, and return the failed ones."""
    states = {row["name"]: row for row in rows}
    failed = []
    for one in due:
        row = states[one.check.name]
        if row["state"] == PASSED:
            marks.note_passed(builder.cache, one, row["facts"], reading)
        elif row["state"] == SKIPPED:
            builder.progress.say(f"check skipped: {row['name']}: {row['reason']}")
        else:
            _log(builder, f"check-{row['name'].replace('/', '-')}", row["output"])
            failed.append((one.check, row))
    return failed


def _problem(builder: Builder, check: Check, row: Row, *, kept: Path | None) -> Problem:
    hint = row["hint"]
    if kept:
        # A check that searches for folders of the build gets them from the environment.
        looks = b"HOST_PATHS" in check.file.content
        setting = f"{HOST_PATHS}={shlex.quote(_host_paths(builder))} " if looks else ""
        hint = f"{hint}\nrepeat the check: {setting}{rerun_command(kept, check.name)}"
    return Problem(f"the check '{check.name}' failed: {check.summary}", "", row["reason"], hint)


def _log(builder: Builder, name: str, text: str) -> None:
    # A full disk must not hide the failure.
    with contextlib.suppress(OSError):
        builder.place.log(name).write_text(masking.masked(text))


def _refused(builder: Builder, partial: Path) -> tuple[Path | None, Problem]:
    """Keep an image that fails its checks; return its path and the problem that names it."""
    kept = builder.place.root / IMAGE
    try:
        shutil.copyfile(partial, kept)
        command = builder.runtime.check(kept, builder.place.sandbox / "tree", ["bash"], {})
        how = failure.keep(builder, "check", builder.place.root / "logs", command)
    except OSError as error:
        hint = (
            f"the image is not kept: {builder.place.root.parent}: {error.strerror}\n"
            "to keep it, free some space or name another place with LUMICONTAINER_TMPDIR"
        )
        return None, Problem("the image is not released", hint=hint)
    except HostError as error:
        problem = error.problems[0]
        hint = f"the image is not kept: {problem.what}:\n{problem.why}"
        return None, Problem("the image is not released", hint=hint)
    hint = f"the image is kept: {kept}\n{how}"
    return kept, Problem("the image is not released", hint=hint)


def rerun_command(image: Path, name: str, options: Sequence[str] = ()) -> str:
    """Return the command line that runs one check of an image."""
    return shlex.join(["lumicontainer", "verify", str(image), *options, "-k", name])
