"""``lumicontainer module``: write module files that start images."""

import argparse
import shlex
import sys
from pathlib import Path

from lumicontainer.api import starting
from lumicontainer.api.starting import ModuleRequest
from lumicontainer.commands import context
from lumicontainer.system.terminal.output import report, say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    parser.add_argument(
        "image", metavar="IMAGE", type=Path, nargs="+", help="image files; the last is the default"
    )
    summary = "the folder for modules/ and programs/"
    parser.add_argument("--prefix", metavar="DIR", type=Path, required=True, help=summary)
    summary = "write Tcl for Environment Modules in place of Lua for Lmod"
    parser.add_argument("--tcl", action="store_true", help=summary)
    parser.add_argument(
        "--env",
        metavar="NAME=VALUE",
        **context.REPEATED,
        dest="variables",
        help="set a variable in the containers; can be repeated",
    )
    context.add_options(parser, "--platform", "--recipes")


def run(arguments: argparse.Namespace) -> None:
    """Write the modules, and print the commands that load them."""
    prefix = arguments.prefix.absolute()
    images = arguments.image
    request = context.request_of(ModuleRequest, arguments, images=images, prefix=prefix)
    paths, names = starting.write_module_files(request, report)
    for path in paths:
        say(path)
    sys.stdout.write(f"module use {shlex.quote(str(prefix / 'modules'))}\n")
    for name in names:
        sys.stdout.write(f"module load {name}\n")
