"""``lumicontainer verify``: run the checks of an image, on this host or in a Slurm job."""

import argparse
import sys
from pathlib import Path

from lumicontainer.api import Report, SlurmJob
from lumicontainer.api.verifying import VerifyRequest, run_verification
from lumicontainer.commands import context
from lumicontainer.errors import EXAMINED_FAILED, OK, InputError, JobError, Problem
from lumicontainer.inside.verify import options, report
from lumicontainer.system.terminal.output import print_json
from lumicontainer.system.terminal.progress import Progress
from lumicontainer.verify import results
from lumicontainer.verify.subject import output_errors


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    add = parser.add_argument
    options.add_choice(parser)
    context.add_options(parser, *context.IMAGE)
    add("--nodes", metavar="N", type=context.number, help="run a Slurm job on N nodes")
    add(
        "--partition",
        metavar="NAME",
        type=context.slurm_name,
        help="run a Slurm job in this partition",
    )
    context.add_options(parser, "--account")
    summary = "check that this recipe (name or file) still gives the same image"
    add("--recipe", metavar="RECIPE", default="", help=summary)
    summary = "the root folder of another host: check that the image can load its libraries"
    add("--host-root", metavar="DIR", type=Path, help=summary)
    context.add_options(parser, "--signed-by")
    add("--junit", metavar="FILE", help="write the results as JUnit XML")
    add("--html", metavar="FILE", help="write the results as an HTML page with charts")
    context.add_options(parser, "--json")


def run(arguments: argparse.Namespace) -> int:
    """Run the checks and report the results; fail if a check or the job failed."""
    request = _read_request(arguments)
    for file in filter(None, (arguments.junit, arguments.html)):
        with output_errors(file):
            report.check_writable(file)
    if not arguments.list or request.damage:
        done = run_verification(request, Progress())
        code = _report(done, arguments)
        if done.problem:
            raise JobError(done.problem)
        return code
    if arguments.json:
        print_json({"form": report.FORM, "checks": request.due()})
    else:
        sys.stdout.write(report.listed(request.due()))
    return OK


def _read_request(arguments: argparse.Namespace) -> VerifyRequest:
    in_job = arguments.nodes or arguments.partition
    if arguments.account and not in_job:
        hint = "add --nodes or --partition, or leave it out"
        raise InputError(Problem("--account is an option of a job", hint=hint))
    nodes, partition = arguments.nodes or 1, arguments.partition or ""
    job = SlurmJob(nodes, partition, arguments.account) if in_job else None
    required = arguments.require
    request = context.request_of(VerifyRequest, arguments, required=required, job=job)
    request.require_valid()
    return request


def _report(done: Report, arguments: argparse.Namespace) -> int:
    taken = arguments.json or report.STDOUT in (arguments.junit, arguments.html)
    (sys.stderr if taken else sys.stdout).write(results.summary(done.data))
    if arguments.json:
        print_json(done.as_data())
    done.write_files(arguments.junit, arguments.html)
    return OK if done.passed else EXAMINED_FAILED
