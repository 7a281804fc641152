"""``lumicontainer job``: write a batch script that runs a command in an image on each rank."""

import argparse

from lumicontainer.api import starting
from lumicontainer.api.starting import JobRequest
from lumicontainer.commands import context
from lumicontainer.commands.start import command_of
from lumicontainer.errors import OK
from lumicontainer.system.terminal.output import report, write_document


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    context.add_options(parser, *context.IMAGE, "--with")
    add = parser.add_argument
    add(
        "--nodes",
        metavar="N",
        type=context.number,
        default=1,
        help="the number of nodes; default: 1",
    )
    summary = "the ranks of a node; default: one for each GPU of the platform, two without GPUs"
    add("--ntasks-per-node", dest="tasks_per_node", metavar="N", type=context.number, help=summary)
    add("--time", metavar="TIME", type=context.time_limit, help="the time limit, such as 2h")
    add("--partition", metavar="NAME", type=context.slurm_name, help="the partition of the nodes")
    add("--account", metavar="NAME", type=context.slurm_name, help="the project that pays")
    add("command", metavar="-- COMMAND", nargs=argparse.REMAINDER)


def run(arguments: argparse.Namespace) -> int:
    """Print the script, which needs no lumicontainer on the nodes."""
    request = context.request_of(JobRequest, arguments, command=command_of(arguments))
    script = starting.job_script(request)
    for problem in script.problems:
        report(problem)
    write_document(script.text)
    return OK
