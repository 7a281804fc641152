"""``lumicontainer postmortem``: find out why a job died."""

import argparse

from lumicontainer import api
from lumicontainer.commands import context
from lumicontainer.errors import EXAMINED_FAILED, OK
from lumicontainer.jobs.postmortem.verdict import NONE


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    summary = "the number of a Slurm job, a folder of logs (lumi-entry --log-dir), or both"
    parser.add_argument("subjects", metavar="JOB|FOLDER", nargs="+", help=summary)
    context.add_options(parser, "--json")


def run(arguments: argparse.Namespace) -> int:
    """Print the cause; the exit code is 1 if the job failed."""
    result = api.postmortem(*arguments.subjects)
    context.print_result(result, arguments)
    return OK if result.verdict.outcome == NONE else EXAMINED_FAILED
