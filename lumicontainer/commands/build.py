"""``lumicontainer build``: build an image from a recipe, and run its checks."""

import argparse
import os
import shlex
import sys
from pathlib import Path

from lumicontainer.api import building
from lumicontainer.api.build_results import BuiltImage, Comparison, PlannedBuild
from lumicontainer.api.building import BuildRequest
from lumicontainer.api.sending import CORES, BuildJob, SentBuild
from lumicontainer.api.values import BuildOptions
from lumicontainer.building.docker_output import output_of
from lumicontainer.commands import context
from lumicontainer.errors import EXAMINED_FAILED, OK, InputError, Problem
from lumicontainer.image.build_date import read_build_date
from lumicontainer.jobs.builds import Invocation
from lumicontainer.jobs.follow import SbatchOptions
from lumicontainer.sandbox import runtimes
from lumicontainer.system import process
from lumicontainer.system.terminal.output import say, write_document
from lumicontainer.system.terminal.progress import Progress


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    context.add_options(parser, *context.RECIPE)
    add = parser.add_argument
    summary = "the image file, by default ./RECIPE.sif, or docker:NAME for an image in Docker"
    add("--output", "-o", metavar="FILE", help=summary)
    summary = "parallel compile jobs; default: LUMICONTAINER_JOBS, or what cores and memory allow"
    jobs = os.environ.get("LUMICONTAINER_JOBS") or None
    add("--jobs", "-j", metavar="N", type=context.number, default=jobs, help=summary)
    add(
        "--runtime",
        choices=tuple(runtimes.RUNTIMES),
        help="the program that runs the steps; default: the first that this host can use",
    )
    add(
        "--secret",
        metavar="id=ID,src=FILE",
        **context.REPEATED,
        dest="secrets",
        help="a file that the scripts of layers can read during the build; it is not stored",
    )
    _add_cache_options(parser)
    for option, summary in (
        ("--locked", "use the pins of the lock only, see lumicontainer lock"),
        ("--rebuild", "run every step, cached or not"),
        ("--check", "build every step twice and list the files that differ; write no image"),
        ("--no-verify", "keep the image without running its checks; the next build repeats it"),
        ("--dry-run", "print the steps, and build nothing"),
    ):
        add(option, action="store_true", help=summary)
    context.add_options(parser, "--mirror", "--progress", "--json")
    _add_job_options(parser)


def _add_cache_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    context.add_options(parser, "--cache-from")
    summary = "send the layers and wheels of the image there at the end"
    add("--cache-to", metavar=context.REGISTRY, default="", help=summary)
    summary = "sign what --cache-to sends with an SSH key, so that other users can trust the key"
    add("--cache-sign", metavar="KEY", default="", help=summary)


def _add_job_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--on",
        metavar="PARTITION",
        type=context.slurm_name,
        help="build in a Slurm job in this partition; see --jobs",
    )
    add("--time", metavar="TIME", type=context.time_limit, help="the job's time limit, such as 2h")
    context.add_options(parser, "--account")
    summary = "compile layers in separate jobs, at most N at the same time"
    add("--jobs-at-once", metavar="N", type=context.number, help=summary)
    summary = "compile this layer into the cache and write no image; needs the layers below it"
    add("--only-compile", metavar="LAYER", default="", help=summary)
    add("--job", metavar="DIR", type=Path, help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> int:
    """Build the image, unless the existing one was built from the same inputs."""
    _check_job_options(arguments)
    more = {"verify": not arguments.no_verify, "build_date": read_build_date(os.environ)}
    request = context.request_of(
        BuildRequest,
        arguments,
        output=output_of(arguments.output),
        options=context.request_of(BuildOptions, arguments, **more),
        job=_job(arguments) if arguments.on else None,
    )
    match building.run_build(request, Progress(arguments.progress), _print_line):
        case SentBuild(code, printed):
            write_document(printed)
            return code
        case Comparison() as comparison:
            context.print_result(comparison, arguments)
            return EXAMINED_FAILED if comparison.failed else OK
        case PlannedBuild() as planned:
            _say_planned(planned)
            context.print_result(planned, arguments)
        case BuiltImage() as built:
            if built.current:
                say(f"{built.output.name} is up to date")
            context.print_result(built, arguments)
    return OK


def _job(arguments: argparse.Namespace) -> BuildJob:
    """Return how a job runs the command of this process."""
    at = sys.argv.index(arguments.verb) + 1
    program = process.own_python("-m", "lumicontainer", *sys.argv[1:at])
    command = Invocation(program, sys.argv[at:])
    sbatch = SbatchOptions(arguments.on, arguments.account, arguments.time or "")
    cores = arguments.jobs or CORES
    return BuildJob(command, sbatch, cores, arguments.jobs_at_once, arguments.job)


def _check_job_options(arguments: argparse.Namespace) -> None:
    """Raise ``InputError`` for options of a job without one."""
    if arguments.on == "":
        hint = "sinfo lists the partitions"
        raise InputError(Problem("--on names no partition", hint=hint))
    options = {"--time": arguments.time, "--account": arguments.account}
    options["--jobs-at-once"] = arguments.jobs_at_once
    hint = "add --on PARTITION, or leave it out"
    wrong = [] if arguments.on else [option for option, value in options.items() if value]
    if wrong:
        raise InputError(*(Problem(f"{each} is an option of a job", hint=hint) for each in wrong))


def _print_line(line: str) -> None:
    if line:
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


def _say_planned(planned: PlannedBuild) -> None:
    for warning in planned.order.warnings:
        say(str(warning))
    if planned.submitted:
        say(f"would submit: sbatch {shlex.join(planned.submitted)}")
