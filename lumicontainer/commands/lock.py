"""``lumicontainer lock``: pin everything that goes into an image."""

import argparse
from pathlib import Path

from lumicontainer.api import locking
from lumicontainer.api.locking import LockRequest
from lumicontainer.commands import context
from lumicontainer.errors import EXAMINED_FAILED, OK
from lumicontainer.system import units
from lumicontainer.system.files.recipe_folder import display
from lumicontainer.system.terminal.output import say
from lumicontainer.system.terminal.progress import Progress


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    context.add_options(parser, *context.RECIPE)
    summary = "the lock; default: locks/ next to the recipe, where build --locked reads it"
    parser.add_argument("--output", "-o", metavar="FILE", type=Path, help=summary)
    context.add_options(parser, "--mirror", "--progress", "--json")


def run(arguments: argparse.Namespace) -> int:
    """Write the lock; fail if an input has no pin."""
    request = context.request_of(LockRequest, arguments)
    written = locking.lock(request, Progress(arguments.progress))
    path, pins, unpinned = written
    say(f"{display(path)}: {units.count(pins, 'pin')}, {unpinned} not pinned")
    context.print_result(written, arguments)
    return EXAMINED_FAILED if unpinned else OK
