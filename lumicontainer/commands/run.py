"""``lumicontainer run``: a command in an image, with what this host and platform need."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from lumicontainer import image as images
from lumicontainer import process, sif
from lumicontainer.catalog import open_catalog
from lumicontainer.commands import common
from lumicontainer.engines import find_engine
from lumicontainer.errors import OK, InputError, Problem


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    parser.add_argument("image", metavar="IMAGE", type=Path)
    parser.add_argument("--platform", metavar="NAME", help="default: what fits this host")
    common.add_catalog(parser)
    parser.add_argument("command", metavar="-- COMMAND", nargs=argparse.REMAINDER)


def run(arguments: argparse.Namespace) -> int:
    """Become the command; its exit code and signals are the command's own."""
    command = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    if not command:
        raise InputError(
            Problem(
                "there is no command to run",
                mend="write lumicontainer run IMAGE -- COMMAND",
            )
        )
    sif.read_objects(arguments.image)
    platform = common.platform_of(open_catalog(arguments.recipes), arguments.platform)
    wanted = [bind.path for bind in platform.binds]
    if wanted:
        # A platform that binds nothing has nothing of what a layer could want.
        wanted = list(dict.fromkeys([*wanted, *images.binds(arguments.image)]))
    binds = [path for path in wanted if Path(path).exists()]
    process.become(find_engine().execute(arguments.image, command, binds=binds), os.environ)
    return OK
