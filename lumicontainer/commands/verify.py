"""``lumicontainer verify``: prove that an image works, here or in a job of Slurm."""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lumicontainer.build.checks.smoke import rerun_command
from lumicontainer.commands import context
from lumicontainer.core.catalog import Catalog
from lumicontainer.core.model import Platform
from lumicontainer.engines import find_engine
from lumicontainer.errors import EXAMINED_FAILED, OK, InputError, JobError, Problem
from lumicontainer.host.machine import platform_of
from lumicontainer.image import sif
from lumicontainer.inside.errors import LaunchError
from lumicontainer.inside.verify import report
from lumicontainer.inside.verify.options import add_choice
from lumicontainer.inside.verify.outcome import ERROR, FAILED, PASSED, SKIPPED, Outcome, from_plain
from lumicontainer.system.terminal.progress import Progress, Task
from lumicontainer.verify import host_checks, html, job, local, results
from lumicontainer.verify.subject import Row, chosen, in_other_ways, read_subject, required


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    add = parser.add_argument
    add("image", metavar="IMAGE", type=Path)
    add_choice(parser)
    add("--platform", metavar="NAME", help="where it runs; default: what fits this host")
    add("--nodes", metavar="N", type=context.number, help="in a job of Slurm, on N nodes")
    add("--partition", metavar="NAME", help="in a job of Slurm, in this partition")
    add("--account", metavar="NAME", default="", help="the project that pays for the job")
    add(
        "--recipe",
        metavar="RECIPE",
        default="",
        help="prove that it is what this, a name or a file, makes now",
    )
    add(
        "--host-root",
        metavar="DIR",
        type=Path,
        help="the files of another host: prove that what the image takes of it loads",
    )
    context.add_catalog(parser)
    context.add_json(parser)
    add("--junit", metavar="FILE", help="write the results as JUnit's XML")
    add("--html", metavar="FILE", help="write the results as a page with pictures")


def run(arguments: argparse.Namespace) -> int:
    """Make the checks, tell what came of them; fail where one does not hold, or the job failed."""
    catalog, root = context.catalog_of(arguments), arguments.host_root
    _check_input(arguments, catalog)
    asked = host_checks.Asked(arguments.image, catalog, recipe=arguments.recipe, root=root)
    head = {"file": arguments.image.absolute(), "level": arguments.level, "begun": time.time()}
    whole = host_checks.make(asked, host_checks.rows(asked)[0])
    # Of an image without a record of its digests it is not known, and the rest can be.
    if whole["state"] not in (PASSED, SKIPPED):
        return _told(results.joined(None, [], [whole], head=head), arguments)
    subject = read_subject(arguments.image)
    ways = in_other_ways(subject.checks)
    every = [*host_checks.rows(asked), *subject.checks, *ways]
    due = chosen(every, arguments.level, arguments.names)
    if arguments.list:
        if arguments.json:
            context.print_json({"form": report.FORM, "checks": list(due)})
        else:
            sys.stdout.write(report.listed(due))
        return OK
    with Progress() as progress:
        came = _made(arguments, asked, due, progress)
    code = _told(results.joined(subject, came.parts, came.rows, head=head), arguments)
    if came.problem:
        raise JobError(came.problem)
    return code


def _check_input(arguments: argparse.Namespace, catalog: Catalog) -> None:
    """Raise ``InputError`` for what would be found to be wrong only once checks have taken time."""
    required(arguments.require)
    sif.read_objects(arguments.image)
    if arguments.recipe:
        catalog.recipe(arguments.recipe)
    root = arguments.host_root
    if root and not root.is_dir():
        raise InputError(
            Problem("there is no such folder", str(root), hint="name one that is there")
        )
    for file in filter(None, (arguments.junit, arguments.html)):
        _tried(report.check_writable, file)


def _tried(writes: Callable[..., None], file: str, *content: bytes) -> None:
    """Have a file written, or found to be one that can be; raise ``InputError`` where not."""
    try:
        writes(file, *content)
    except LaunchError as error:
        raise InputError(Problem(error.what, error.where, error.why, error.hint)) from error


class _Teller:
    """Tell what came of each check when it is done, and count them all as one row."""

    def __init__(self, progress: Progress, task: Task) -> None:
        self._progress = progress
        self._task = task
        self.waiting = task.waiting

    def line(self, line: str) -> None:
        """Tell a line of lumi-verify, which counts the checks of its own run alone."""
        text, counts = _COUNT.subn("", line)
        (self._progress.counted if counts else self._progress.say)(text)
        self._task.line(text)

    def done(self, row: Row) -> Row:
        """Tell what came of a check that was made from here; return it."""
        text = _line(row)
        self._progress.counted(text)
        self._task.line(text)
        return row


def _made(
    arguments: argparse.Namespace, asked: host_checks.Asked, due: Sequence[Row], progress: Progress
) -> job.Collected:
    """Make checks, each where it belongs; a line is told of each when it is done."""
    in_job = bool(arguments.nodes or arguments.partition)
    progress.expect(sum(not (in_job and "way" in check) for check in due))
    with progress.work("verify") as task:
        teller = _Teller(progress, task)
        own = [check for check in due if host_checks.is_own(check)]
        rows = tuple(teller.done(host_checks.make(asked, check)) for check in own)
        if len(rows) == len(due):
            return job.Collected((), rows=rows)
        came = (_in_a_job if in_job else _here)(arguments, asked, due, teller)
    return replace(came, rows=(*rows, *came.rows))


def _in_a_job(
    arguments: argparse.Namespace, asked: host_checks.Asked, due: Sequence[Row], teller: _Teller
) -> job.Collected:
    """Make those of the checks that run in the image in a job of Slurm."""
    ways = [results.row(each, Outcome(SKIPPED, _NOT_IN_A_JOB)) for each in due if "way" in each]
    platform = platform_of(asked.catalog, arguments.platform)
    listener = job.Listener(teller.line, teller.waiting)
    came = job.run(_job(arguments, _inside(due), platform), listener)
    return replace(came, rows=tuple(ways))


def _here(
    arguments: argparse.Namespace, asked: host_checks.Asked, due: Sequence[Row], teller: _Teller
) -> job.Collected:
    """Make those of the checks that run in the image in containers of this host."""
    platform = platform_of(asked.catalog, arguments.platform)
    host = local.host_for(arguments.image, platform, teller.line)
    part = local.run(host, _inside(due), required=arguments.require)
    ways = [each for each in due if "way" in each]
    rows = local.run_ways(host, ways, teller.done, required=arguments.require)
    return job.Collected((part,), rows=tuple(rows))


def _inside(due: Sequence[Row]) -> list[Row]:
    return [each for each in due if "file" in each and "way" not in each]


def _line(row: Row) -> str:
    return report.line(row, from_plain(row)).rstrip("\n")


def _job(arguments: argparse.Namespace, checks: Sequence[Row], platform: Platform) -> job.Job:
    return job.Job(
        arguments.image,
        platform,
        find_engine(),
        job.steps(checks),
        nodes=arguments.nodes or 1,
        partition=arguments.partition or "",
        account=arguments.account,
        required=arguments.require,
        recipes=arguments.recipes,
    )


_NO_CHECK = "lumi-verify/"
"""Begins the names of what lumi-verify finds beside the checks."""
_REPEATED = (
    *("platform", "nodes", "partition", "account", "recipe", "host_root", "recipes", "require"),
)
"""The options that decide what a check comes to."""
_COUNT = re.compile(r"^\[ *\d+/\d+\] ")
_NOT_IN_A_JOB = "other ways of starting a container are tried by lumicontainer verify without a job"


def _with_commands(result: dict[str, Any], arguments: argparse.Namespace) -> dict[str, Any]:
    """Return a result in which each check that does not hold has the command to make it again."""
    given = {f"--{name.replace('_', '-')}": getattr(arguments, name) for name in _REPEATED}
    options = [word for name, value in given.items() if value for word in (name, str(value))]
    rows = [
        {**row, "again": rerun_command(arguments.image, row["name"], options)}
        if row["state"] in (FAILED, ERROR) and not row["name"].startswith(_NO_CHECK)
        else row
        for row in result["checks"]
    ]
    return {**result, "checks": rows}


def _told(result: dict[str, Any], arguments: argparse.Namespace) -> int:
    """Write the reports and the summary; return the exit code."""
    result = _with_commands(result, arguments)
    files = ((arguments.junit, report.as_junit), (arguments.html, html.page))
    taken = arguments.json or report.STDOUT in (arguments.junit, arguments.html)
    (sys.stderr if taken else sys.stdout).write(results.summary(result))
    if arguments.json:
        context.print_json(result)
    problems: list[Problem] = []
    for file, form in files:
        if file:
            try:
                _tried(report.write, file, form(result))
            except InputError as error:
                problems += error.problems
    if problems:
        raise InputError(*problems)
    return OK if results.held(result) else EXAMINED_FAILED
