"""``lumicontainer lock``: hold fast all that an image is made of."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from lumicontainer.build.lock_files import write_lock
from lumicontainer.commands import context
from lumicontainer.core.lock.lock import file_name
from lumicontainer.core.plan.plan import planned
from lumicontainer.errors import EXAMINED_FAILED, OK, InputError, Problem
from lumicontainer.host.mirrors import read_mirrors
from lumicontainer.pinning.pin import make_lock
from lumicontainer.system import units
from lumicontainer.system.files.recipe_folder import display
from lumicontainer.system.terminal.output import say, write_document
from lumicontainer.system.terminal.progress import FORMS, Progress


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    context.add_recipe(parser)
    parser.add_argument(
        "--output",
        "-o",
        metavar="FILE",
        type=Path,
        help="the lock; default: locks/ beside the recipe, where build --locked looks for it",
    )
    context.add_mirror(parser)
    parser.add_argument(
        "--progress", choices=FORMS, default="auto", help="how to tell of it; default: %(default)s"
    )


def _check_output(output: Path, *, named: bool) -> None:
    """Raise ``InputError`` where the lock could not be written, before it takes minutes."""
    if output.is_dir():
        what = "the lock would take the place of a folder"
        raise InputError(Problem(what, str(output), hint="name a file: --output FILE"))
    if named and not output.parent.is_dir():
        raise InputError(
            Problem("the lock's folder is not there", str(output.parent), hint="make it first")
        )
    place = next(each for each in output.absolute().parents if each.exists())
    if not os.access(place, os.W_OK | os.X_OK):
        what = "the lock's folder cannot be written to"
        raise InputError(Problem(what, str(place), hint="name another file: --output FILE"))


def run(arguments: argparse.Namespace) -> int:
    """Write the lock; fail where something is still open in it."""
    resolved = context.resolved_recipe(arguments)
    mirrors = read_mirrors(arguments.mirror)
    folder = context.catalog_of(arguments).locks(resolved.recipe.name)
    output = Path(arguments.output or folder / file_name(resolved))
    _check_output(output, named=arguments.output is not None)
    with Progress(arguments.progress) as progress:
        lock = make_lock(resolved, plan_of=planned, mirrors=mirrors, progress=progress)
    write_lock(lock, output)
    open_entries = sum(1 for _ in lock.still_open())
    say(f"{display(output)}: {units.count(lock.count(), 'pin')}, {open_entries} open")
    write_document(f"{output}\n")
    return EXAMINED_FAILED if open_entries else OK
