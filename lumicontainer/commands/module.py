"""``lumicontainer module``: write module files that start images."""

import argparse
import re
import shlex
import stat
import sys
from pathlib import Path

from lumicontainer.api import starting
from lumicontainer.api.starting import ModuleRequest
from lumicontainer.commands import context
from lumicontainer.errors import OK, InputError, Problem
from lumicontainer.system.terminal.output import report, say

_VARIABLE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=([^$`\\]*)")
"""The engines evaluate ``$``, backquotes and backslashes in the values of SINGULARITYENV."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    parser.add_argument(
        "image", metavar="IMAGE", type=Path, nargs="+", help="the files of images, the default last"
    )
    summary = "the folder for modules/ and programs/"
    parser.add_argument("--prefix", metavar="DIR", type=Path, required=True, help=summary)
    summary = "write Tcl for Environment Modules in place of Lua for Lmod"
    parser.add_argument("--tcl", action="store_true", help=summary)
    parser.add_argument(
        "--env",
        metavar="NAME=VALUE",
        **context.REPEATED,
        help="set a variable in the containers; can be repeated",
    )
    context.add_options(parser, "--platform", "--recipes")


def run(arguments: argparse.Namespace) -> int:
    """Write the modules, and print the commands that load them."""
    prefix = arguments.prefix.absolute()
    request = ModuleRequest(
        arguments.image,
        prefix,
        tcl=arguments.tcl,
        variables=dict(map(_variable, arguments.env)),
        platform=arguments.platform,
        recipes=arguments.recipes,
    )
    paths, names = starting.write_module_files(request, report)
    for path in paths:
        say(path)
    if not (prefix / "modules").stat().st_mode & stat.S_IRGRP:
        what, why = "nobody but you can read these modules", "your umask closes new files to others"
        hint = f"chmod -R go+rX {shlex.quote(str(prefix))}, if they are for others"
        report(Problem(what, str(prefix), why, hint, "warning"))
    sys.stdout.write(f"module use {shlex.quote(str(prefix / 'modules'))}\n")
    for name in names:
        sys.stdout.write(f"module load {name}\n")
    return OK


def _variable(text: str) -> tuple[str, str]:
    match = _VARIABLE.fullmatch(text)
    if match is None or not match[2].isprintable():
        why = "expected NAME=VALUE on one line, without '$', '`' and '\\'"
        hint = "write it like --env HF_HUB_CACHE=/scratch/cache"
        raise InputError(Problem(f"invalid variable '{text}'", "--env", why, hint))
    return match[1], match[2]
