"""``lumicontainer build``: build an image from a recipe, and run its checks."""

import argparse
import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from lumicontainer.api import BuildOptions, building
from lumicontainer.api.building import BuildOrder
from lumicontainer.api.sending import JobOptions, send, submitted
from lumicontainer.building import docker_output
from lumicontainer.commands import context
from lumicontainer.core.plan.steps import Plan
from lumicontainer.core.resolve.inputs import base_label, unpinned
from lumicontainer.errors import EXAMINED_FAILED, OK, InputError, Problem
from lumicontainer.jobs import slurm
from lumicontainer.jobs.builds import CompileJobs, Invocation
from lumicontainer.jobs.follow import Asked
from lumicontainer.sandbox import runtimes
from lumicontainer.system import units
from lumicontainer.system.terminal.output import line, print_json, print_table, say, write_document
from lumicontainer.system.terminal.progress import Progress

_CORES = 8
"""The cores of a job if --jobs names none."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    context.add_options(parser, *context.RECIPE)
    add = parser.add_argument
    summary = "the file of the image, default ./RECIPE.sif; or docker:NAME, an image of Docker"
    add("--output", "-o", metavar="FILE", help=summary)
    summary = "compile jobs of a step; default: LUMICONTAINER_JOBS, or what cores and memory allow"
    asked = os.environ.get("LUMICONTAINER_JOBS") or None
    add("--jobs", "-j", metavar="N", type=context.number, default=asked, help=summary)
    add(
        "--runtime",
        choices=tuple(runtimes.RUNTIMES),
        help="the program that runs the steps; default: the first that this host can use",
    )
    add(
        "--secret",
        metavar="id=ID,src=FILE",
        **context.REPEATED,
        help="a file that the scripts of layers can read during the build; it is not stored",
    )
    for option, summary in (
        ("--locked", "use the pins of the lock only, see lumicontainer lock"),
        ("--rebuild", "run every step, cached or not"),
        ("--check", "build every step twice and list the files that differ; write no image"),
        ("--no-verify", "keep the image without running its checks; the next build repeats it"),
        ("--dry-run", "print the steps, and do nothing"),
    ):
        add(option, action="store_true", help=summary)
    context.add_options(parser, "--mirror", "--progress", "--json")
    _add_job_options(parser)


def _add_job_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--on",
        metavar="PARTITION",
        type=context.slurm_name,
        help="build in a Slurm job in this partition; see --jobs",
    )
    add("--time", metavar="TIME", type=context.time_limit, help="the job's time limit, such as 2h")
    add("--account", **context.ACCOUNT)
    summary = "compile layers in jobs of their own, at most N at the same time"
    add("--jobs-at-once", metavar="N", type=context.number, help=summary)
    summary = "compile this layer into the cache and write no image; needs the layers below it"
    add("--only-compile", metavar="LAYER", default="", help=summary)
    add("--job", metavar="DIR", type=Path, help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> int:
    """Build the image, unless the existing one was built from the same inputs."""
    _check_job_options(arguments)
    if docker_output.name_of(arguments.output):
        _refuse_file_options(arguments)
    resolved = context.resolved_recipe(arguments, locked=arguments.locked)
    options, job = _options(arguments), _job(arguments, resolved.platform.name)
    compile_jobs = _compile_jobs(arguments, job)
    order = building.order(resolved, arguments.output, options, compile_jobs)
    if not arguments.check:
        building.require_replaceable(order)
    if arguments.dry_run:
        building.require_options(order)
        _print_plan(arguments, order, job)
    elif job and not (arguments.job or (order.current and _makes_an_image(arguments))):
        code, printed = send(order, job, _print_line)
        write_document(printed)
        return code
    elif arguments.only_compile:
        building.compile_layer(order, arguments.only_compile, Progress(arguments.progress))
    elif arguments.check:
        return _check(arguments, order)
    else:
        _build(arguments, order)
    return OK


def _makes_an_image(arguments: argparse.Namespace) -> bool:
    return not (arguments.check or arguments.only_compile)


def _options(arguments: argparse.Namespace) -> BuildOptions:
    return BuildOptions(
        jobs=arguments.jobs,
        runtime=arguments.runtime,
        secrets=arguments.secret,
        mirrors=arguments.mirror,
        rebuild=arguments.rebuild,
        verify=not arguments.no_verify,
    )


def _job(arguments: argparse.Namespace, platform: str) -> JobOptions | None:
    """Return how a job runs the command of this process, if the user asked for one."""
    if not arguments.on:
        return None
    at = sys.argv.index(arguments.verb) + 1
    program = [sys.executable, "-X", "utf8", "-m", "lumicontainer", *sys.argv[1:at]]
    command = Invocation(program, [f"--platform={platform}", *sys.argv[at:]])
    asked = Asked(arguments.on, arguments.account, arguments.time or "")
    apart = bool(arguments.jobs_at_once)
    return JobOptions(command, asked, arguments.jobs or _CORES, compile_jobs=apart)


def _compile_jobs(arguments: argparse.Namespace, job: JobOptions | None) -> CompileJobs | None:
    """Return the jobs in which this job compiles, if the user asked for them."""
    if not (job and arguments.job and arguments.jobs_at_once) or arguments.only_compile:
        return None
    return CompileJobs(job.command, arguments.job, job.asked, job.cores, arguments.jobs_at_once)


def _build(arguments: argparse.Namespace, order: BuildOrder) -> None:
    if order.current:
        say(f"{order.name} is up to date")
    image = building.make(order, Progress(arguments.progress))
    if not arguments.json:
        write_document(f"{order.output}\n")
        return
    result = {"image": order.output, "key": order.plan.steps[-1].key, "built": not order.current}
    print_json(result if order.current else {**result, "seconds": image.seconds})


def _refuse_file_options(arguments: argparse.Namespace) -> None:
    others = ("on", "only_compile", "check", "dry_run")
    if given := [each for each in others if getattr(arguments, each)]:
        option = f"--{given[0].replace('_', '-')}"
        what, hint = f"{option} needs an image file", "leave it out, or name a file by --output"
        raise InputError(Problem(what, "--output docker:NAME", hint=hint))


def _check_job_options(arguments: argparse.Namespace) -> None:
    """Raise ``InputError`` for options of a job without one; require Slurm for a job."""
    options = {"--time": arguments.time, "--account": arguments.account}
    options["--jobs-at-once"] = arguments.jobs_at_once
    if arguments.on == "":
        hint = "sinfo lists the partitions"
        raise InputError(Problem("--on names no partition", hint=hint))
    if arguments.on:
        slurm.require("leave out --on to build on this host")
        return
    hint = "add --on PARTITION, or leave it out"
    given = [option for option, value in options.items() if value]
    if given:
        raise InputError(*(Problem(f"{each} is an option of a job", hint=hint) for each in given))


def _print_line(line: str) -> None:
    if line:
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


def _check(arguments: argparse.Namespace, order: BuildOrder) -> int:
    found = building.build_twice(order, Progress(arguments.progress))
    if arguments.json:
        print_json([each._asdict() for each in found])
    elif found:
        print_table([(e.step, e.path, e.what, e.reason or "not explained") for e in found])
    else:
        layers = len(order.plan.steps) + 1
        sys.stdout.write(f"{layers} layers, the same twice, byte for byte\n")
    return EXAMINED_FAILED if any(not each.reason for each in found) else OK


def _print_plan(arguments: argparse.Namespace, order: BuildOrder, job: JobOptions | None) -> None:
    for warning in order.warnings:
        say(str(warning))
    if job and not order.current:
        say(f"would submit: sbatch {shlex.join(submitted(order, job))}")
    plan, taken = order.plan, building.taken(order)
    if not arguments.json:
        _print_steps(order, taken)
        return
    steps = [{"name": step.name, "key": step.key} for step in plan.steps]
    head = {"image": order.output, "up_to_date": order.current, "base_key": plan.base_key}
    print_json({**head, "steps": steps, "taken": taken})


def _print_steps(order: BuildOrder, taken: Mapping[str, str]) -> None:
    origins = {key: f"in the shared cache, from {publisher}" for key, publisher in taken.items()}
    rows = [(name, key[:12], notes, origins.get(key, "")) for name, key, notes in _rows(order.plan)]
    state = "up to date, would not build" if order.current else "would build"
    sys.stdout.write(f"{state}: {line(order.output)}\n")
    print_table(rows)


def _rows(plan: Plan) -> Iterator[tuple[str, str, str]]:
    """Yield the name, the key and the notes of the base and of each step."""
    layers = plan.resolved.included()
    open_inputs = {each.name: unpinned(plan.resolved, each) for each in layers}
    base = base_label(plan.bootstrap)
    pinned = base not in open_inputs[layers[0].name]
    yield "base", plan.base_key, base if pinned else f"{base}  not pinned"
    for step in plan.steps:
        marks = len(open_inputs.get(step.name, ()))
        yield step.name, step.key, f"{units.count(marks, 'input')} not pinned" if marks else ""
