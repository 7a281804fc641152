"""``lumicontainer verify``: run the checks of an image, on this host or in a Slurm job."""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lumicontainer.build.checks.smoke import rerun_command
from lumicontainer.commands import context
from lumicontainer.engines import find_engine
from lumicontainer.errors import EXAMINED_FAILED, OK, InputError, JobError, Problem
from lumicontainer.image import sif
from lumicontainer.inside.verify import options, report
from lumicontainer.inside.verify.outcome import ERROR, FAILED, PASSED, SKIPPED, Outcome, from_plain
from lumicontainer.system.terminal.progress import Progress, Task
from lumicontainer.verify import host_checks, html, job, local, results
from lumicontainer.verify.subject import Row, chosen, in_other_ways, input_errors, read_subject

_NO_CHECK = "lumi-verify/"
"""Begins the names of problems that lumi-verify finds beside the checks."""
_REPEATED = (
    *("platform", "nodes", "partition", "account", "recipe", "host_root", "recipes", "require"),
)
"""The options that decide the outcome of a check."""
_COUNT = re.compile(r"^\[ *\d+/\d+\] ")
_NOT_IN_A_JOB = "other start modes of a container are checked by lumicontainer verify without a job"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    add = parser.add_argument
    options.add_choice(parser)
    context.add_options(parser, *context.IMAGE)
    add("--nodes", metavar="N", type=context.number, help="run a Slurm job on N nodes")
    add("--partition", metavar="NAME", help="run a Slurm job in this partition")
    add("--account", metavar="NAME", default="", help="the project that pays for the job")
    summary = "check that this recipe, a name or a file, now makes the same image"
    add("--recipe", metavar="RECIPE", default="", help=summary)
    summary = "the root folder of another host: check that the image can load its libraries"
    add("--host-root", metavar="DIR", type=Path, help=summary)
    add("--junit", metavar="FILE", help="write the results as JUnit XML")
    add("--html", metavar="FILE", help="write the results as an HTML page with charts")
    context.add_options(parser, "--json")


def run(arguments: argparse.Namespace) -> int:
    """Run the checks and report the results; fail if a check or the job failed."""
    request = _checked_request(arguments)
    head = {"file": arguments.image.absolute(), "level": arguments.level, "begun": time.time()}
    whole = host_checks.make(request, host_checks.rows(request)[0])
    # An image without recorded digests can still be checked.
    if whole["state"] not in (PASSED, SKIPPED):
        return _report(results.joined(None, [], [whole], head=head), arguments)
    subject = read_subject(arguments.image)
    ways = in_other_ways(subject.checks)
    every = [*host_checks.rows(request), *subject.checks, *ways]
    due = chosen(every, arguments.level, arguments.names)
    if arguments.list:
        if arguments.json:
            context.print_json({"form": report.FORM, "checks": list(due)})
        else:
            sys.stdout.write(report.listed(due))
        return OK
    with Progress() as progress:
        collected = _run(arguments, request, due, progress)
    whole_result = results.joined(subject, collected.parts, collected.rows, head=head)
    code = _report(whole_result, arguments)
    if collected.problem:
        raise JobError(collected.problem)
    return code


def _checked_request(arguments: argparse.Namespace) -> host_checks.Request:
    with input_errors():
        options.required_kinds(arguments.require)
    sif.read_objects(arguments.image)
    catalog, root = context.catalog_of(arguments), arguments.host_root
    if arguments.recipe:
        catalog.recipe(arguments.recipe)
    if root and not root.is_dir():
        raise InputError(Problem("folder not found", str(root), hint="correct --host-root"))
    with input_errors():
        for file in filter(None, (arguments.junit, arguments.html)):
            report.check_writable(file)
    return host_checks.Request(arguments.image, catalog, recipe=arguments.recipe, root=root)


class _Reporter:
    """Report each check when it is done; all checks count together."""

    def __init__(self, progress: Progress, task: Task) -> None:
        self._progress = progress
        self._task = task
        self.waiting = task.waiting

    def line(self, line: str) -> None:
        """Report a line of lumi-verify, which counts only the checks of its own run."""
        text, counts = _COUNT.subn("", line)
        (self._progress.counted if counts else self._progress.say)(text)
        self._task.line(text)

    def done(self, row: Row) -> Row:
        """Report the result of a check; return it."""
        text = report.line(row, from_plain(row)).rstrip("\n")
        self._progress.counted(text)
        self._task.line(text)
        return row


def _run(
    arguments: argparse.Namespace,
    request: host_checks.Request,
    due: Sequence[Row],
    progress: Progress,
) -> job.Collected:
    in_job = bool(arguments.nodes or arguments.partition)
    progress.expect(sum(not (in_job and "way" in check) for check in due))
    inside = [each for each in due if "file" in each and "way" not in each]
    ways = [each for each in due if "way" in each]
    with progress.work("verify") as task:
        reporter = _Reporter(progress, task)
        own = [check for check in due if host_checks.is_own(check)]
        rows = tuple(reporter.done(host_checks.make(request, check)) for check in own)
        if len(rows) == len(due):
            return job.Collected((), rows=rows)
        run = _run_in_a_job if in_job else _run_here
        collected = run(arguments, inside, ways, reporter)
    return replace(collected, rows=(*rows, *collected.rows))


def _run_in_a_job(
    arguments: argparse.Namespace, inside: list[Row], ways: list[Row], reporter: _Reporter
) -> job.Collected:
    wanted = job.Job(
        arguments.image,
        context.find_platform(arguments),
        find_engine(),
        job.steps(inside),
        nodes=arguments.nodes or 1,
        partition=arguments.partition or "",
        account=arguments.account,
        required=arguments.require,
        recipes=arguments.recipes,
    )
    collected = job.run(wanted, job.Listener(reporter.line, reporter.waiting))
    skipped = (results.row(each, Outcome(SKIPPED, _NOT_IN_A_JOB)) for each in ways)
    return replace(collected, rows=tuple(skipped))


def _run_here(
    arguments: argparse.Namespace, inside: list[Row], ways: list[Row], reporter: _Reporter
) -> job.Collected:
    platform, required = context.find_platform(arguments), arguments.require
    host = local.host_for(arguments.image, platform, reporter.line)
    part = local.run(host, inside, required=required)
    rows = local.run_ways(host, ways, reporter.done, required=required)
    return job.Collected((part,), rows=tuple(rows))


def _with_commands(result: dict[str, Any], arguments: argparse.Namespace) -> dict[str, Any]:
    given = {f"--{name.replace('_', '-')}": getattr(arguments, name) for name in _REPEATED}
    repeated = [word for name, value in given.items() if value for word in (name, str(value))]
    rows = [
        {**row, "again": rerun_command(arguments.image, row["name"], repeated)}
        if row["state"] in (FAILED, ERROR) and not row["name"].startswith(_NO_CHECK)
        else row
        for row in result["checks"]
    ]
    return {**result, "checks": rows}


def _report(result: dict[str, Any], arguments: argparse.Namespace) -> int:
    result = _with_commands(result, arguments)
    taken = arguments.json or report.STDOUT in (arguments.junit, arguments.html)
    (sys.stderr if taken else sys.stdout).write(results.summary(result))
    if arguments.json:
        context.print_json(result)
    problems: list[Problem] = []
    for file, form in ((arguments.junit, report.as_junit), (arguments.html, html.page)):
        if file:
            try:
                with input_errors():
                    report.write(file, form(result))
            except InputError as error:
                problems += error.problems
    if problems:
        raise InputError(*problems)
    return OK if results.passed(result) else EXAMINED_FAILED
