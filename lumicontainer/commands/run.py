"""``lumicontainer run``: run a command in an image, with the binds of this host."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

from lumicontainer.commands import context
from lumicontainer.errors import OK, InputError, Problem
from lumicontainer.image import sif
from lumicontainer.system import process
from lumicontainer.system.terminal.output import report
from lumicontainer.verify.local import host_for


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    context.add_options(parser, *context.IMAGE)
    parser.add_argument("command", metavar="-- COMMAND", nargs=argparse.REMAINDER)


def run(arguments: argparse.Namespace) -> int:
    """Replace this process by the command; its exit code is the result."""
    command = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    if not command:
        hint = "write lumicontainer run IMAGE -- COMMAND"
        raise InputError(Problem("expected a command to run", hint=hint))
    if command[0].startswith("-"):
        hint = "write options before IMAGE: lumicontainer run --platform NAME IMAGE -- COMMAND"
        raise InputError(Problem(f"expected a command, got option '{command[0]}'", hint=hint))
    start(arguments, command)
    return OK


def start(arguments: argparse.Namespace, command: Sequence[str], *, way: str = "exec") -> None:
    """Replace this process by a command in an image; ``way`` is that of ``Engine.execute``."""
    sif.read_objects(arguments.image)
    host = host_for(arguments.image, context.find_platform(arguments))
    for problem in host.needs.problems:
        report(problem)
    process.become(host.command(command, way), os.environ)
