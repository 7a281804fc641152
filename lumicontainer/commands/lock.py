"""``lumicontainer lock``: pin everything that an image is made of."""

import argparse
from pathlib import Path

from lumicontainer.commands import context
from lumicontainer.core.lock import file_name
from lumicontainer.core.plan.plan import planned
from lumicontainer.errors import EXAMINED_FAILED, OK, InputError, Problem
from lumicontainer.host.mirrors import read_mirrors
from lumicontainer.host.recipes import write_lock
from lumicontainer.pinning.pin import make_lock
from lumicontainer.system import units
from lumicontainer.system.files.partial import require_folder_of
from lumicontainer.system.files.recipe_folder import display
from lumicontainer.system.terminal.output import say, write_document
from lumicontainer.system.terminal.progress import Progress


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    context.add_options(parser, *context.RECIPE)
    summary = "the lock; default: locks/ next to the recipe, where build --locked reads it"
    parser.add_argument("--output", "-o", metavar="FILE", type=Path, help=summary)
    context.add_options(parser, "--mirror", "--progress")


def run(arguments: argparse.Namespace) -> int:
    """Write the lock; fail if an input has no pin."""
    resolved = context.resolved_recipe(arguments)
    mirrors = read_mirrors(arguments.mirror)
    folder = context.catalog_of(arguments).locks(resolved.recipe.name)
    if arguments.output is None:
        folder.mkdir(parents=True, exist_ok=True)
    output = Path(arguments.output or folder / file_name(resolved))
    require_folder_of(output, "lock")
    if output.is_dir():
        raise InputError(Problem("the lock is a folder", str(output), hint="name a file"))
    with Progress(arguments.progress) as progress:
        lock = make_lock(resolved, plan_of=planned, mirrors=mirrors, progress=progress)
    write_lock(lock, output)
    unpinned = sum(1 for _ in lock.still_open())
    say(f"{display(output)}: {units.count(lock.pins(), 'pin')}, {unpinned} not pinned")
    write_document(f"{output}\n")
    return EXAMINED_FAILED if unpinned else OK
