"""``lumicontainer run``: run a command in an image, with the binds of this host."""

import argparse

from lumicontainer.commands import context
from lumicontainer.commands.start import command_of, start
from lumicontainer.errors import OK


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    context.add_options(parser, *context.IMAGE, "--with")
    parser.add_argument(
        "command", metavar="-- COMMAND", nargs=argparse.REMAINDER, help=context.COMMAND
    )


def run(arguments: argparse.Namespace) -> int:
    """Replace this process by the command; its exit code is the result."""
    start(arguments, command_of(arguments))
    return OK
