"""``lumicontainer job``: write a batch script that runs a program in an image, or submit it."""

import argparse
import sys

from lumicontainer.api import jobs
from lumicontainer.api.jobs import JobRequest
from lumicontainer.commands import context
from lumicontainer.commands.start import command_of
from lumicontainer.errors import InputError, Problem
from lumicontainer.jobs.follow import Listener
from lumicontainer.jobs.scripts.chain import RESTARTS
from lumicontainer.jobs.scripts.program import LAUNCHERS, is_python
from lumicontainer.system.terminal.output import report, say, write_document


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    context.add_options(parser, *context.IMAGE, "--with")
    add = parser.add_argument
    summary = "the number of nodes; default: as many as the GPUs need, else 1"
    add("--nodes", metavar="N", type=context.number, help=summary)
    summary = "the total number of GPUs; default: all GPUs of the nodes"
    add("--gpus", metavar="N", type=context.number, help=summary)
    summary = "the tasks per node; default: one per GPU, or two on nodes without GPUs"
    add("--ntasks-per-node", dest="tasks_per_node", metavar="N", type=context.number, help=summary)
    summary = "the memory per node, such as 120G; default: in proportion to its GPUs"
    add("--mem", dest="memory", metavar="SIZE", type=context.memory, help=summary)
    summary = "let one task per node start the ranks with torchrun, accelerate or deepspeed"
    add("--launcher", choices=LAUNCHERS, metavar="NAME", help=summary)
    add("--time", metavar="TIME", type=context.time_limit, help="the time limit, such as 2h")
    summary = "the partition of the nodes; default: the first of the platform that fits"
    add("--partition", metavar="NAME", type=context.slurm_name, help=summary)
    context.add_options(parser, "--account")
    add("--array", metavar="LIST", help="one job per number, such as 0-7")
    add("--dependency", metavar="LIST", help="when the job may start, such as afterok:1234")
    summary = "the log, such as logs/%%x-%%j.out; default: slurm-JOB.out"
    add("--output", metavar="FILE", help=summary)
    summary = "submit the job again each time it ends, until its program ends with 0"
    add("--until-done", action="store_true", help=summary)
    summary = "with --until-done: the file, folder or pattern that each save updates"
    add("--checkpoint", metavar="FILE", help=summary)
    summary = f"with --until-done: how often to restart without a new save; default: {RESTARTS}"
    add("--restarts", metavar="N", type=context.number_from_0, help=summary)
    summary = "submit the job, and print its number in place of the script"
    add("--submit", action="store_true", help=summary)
    summary = "submit the job, print its log, and succeed if the job does"
    add("--wait", action="store_true", help=summary)
    summary = "the program to run in the image, and its arguments"
    add("command", metavar="-- PROGRAM", nargs=argparse.REMAINDER, help=summary)


def run(arguments: argparse.Namespace) -> None:
    """Print the script or the number of the job; what the job costs goes to stderr."""
    if arguments.wait and arguments.array:
        hint = "leave out --wait; squeue --me lists its jobs"
        raise InputError(Problem("--wait follows one job, not an array", "--wait", hint=hint))
    request = context.request_of(JobRequest, arguments, command=_command(arguments))
    script = jobs.job_script(request)
    for problem in script.problems:
        report(problem)
    for note in script.notes:
        say(note)
    if not (arguments.submit or arguments.wait):
        write_document(script.text)
        return
    number = jobs.submit_job(script)
    if not arguments.wait:
        sys.stdout.write(f"{number}\n")
        return
    say(f"job {number} is submitted")
    _wait(number)


def _command(arguments: argparse.Namespace) -> list[str]:
    """Return the words of the program; raise ``InputError`` if there is none."""
    words: list[str] = arguments.command
    words = words[1:] if words[:1] == ["--"] else words
    return words if is_python(words) else command_of(arguments)


def _wait(number: str) -> None:
    """Follow a job and those that continue it; ask on an interruption if it shall be cancelled."""
    try:
        while following := jobs.wait_for_job(number, Listener(_print_line, _say_waiting)):
            number = following
    except KeyboardInterrupt:
        if _wants_cancel(number):
            jobs.cancel_job(number)
            say(f"job {number} is cancelled")
        else:
            say(f"job {number} goes on; scancel {number} ends it")
        raise


def _wants_cancel(number: str) -> bool:
    if not (sys.stdin and sys.stdin.isatty()):
        return False
    sys.stderr.write(f"\ncancel job {number}? [y/N] ")
    sys.stderr.flush()
    try:
        return sys.stdin.readline().strip().lower() in ("y", "yes")
    except KeyboardInterrupt:
        return False


def _print_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _say_waiting(text: str) -> None:
    """Print why a job waits."""
    if text:
        say(text)
