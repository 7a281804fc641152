"""``lumicontainer run``: a command in an image, with what this host and platform need."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from lumicontainer.commands import context
from lumicontainer.engines import find_engine
from lumicontainer.errors import OK, HostError, InputError, Problem
from lumicontainer.host.binds import needs_of
from lumicontainer.host.machine import platform_of
from lumicontainer.image import sif
from lumicontainer.system import process
from lumicontainer.system.terminal.output import report


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    add_image(parser)
    parser.add_argument("command", metavar="-- COMMAND", nargs=argparse.REMAINDER)


def add_image(parser: argparse.ArgumentParser) -> None:
    """Add the options that decide how an image is started."""
    parser.add_argument("image", metavar="IMAGE", type=Path)
    parser.add_argument("--platform", metavar="NAME", help="default: what fits this host")
    context.add_catalog(parser)


def run(arguments: argparse.Namespace) -> int:
    """Become the command; its exit code and signals are the command's own."""
    command = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    if not command:
        raise InputError(
            Problem(
                "there is no command to run",
                hint="write lumicontainer run IMAGE -- COMMAND",
            )
        )
    if command[0].startswith("-"):
        raise InputError(
            Problem(
                f"'{command[0]}' is no command",
                hint="options of run stand before IMAGE: lumicontainer run --platform NAME IMAGE "
                "-- COMMAND",
            )
        )
    start(arguments, command)
    return OK


def start(arguments: argparse.Namespace, command: Sequence[str], *, way: str = "exec") -> None:
    """Become a command in an image, with the binds and the options that it needs here.

    ``way`` is that of ``Engine.execute``.
    """
    sif.read_objects(arguments.image)
    platform = platform_of(context.catalog_of(arguments), arguments.platform)
    needs = needs_of(arguments.image, platform)
    if needs.unfit():
        raise HostError(*needs.problems)
    for problem in needs.problems:
        report(problem)
    engine = find_engine()
    words = engine.execute(
        arguments.image,
        command,
        binds=[str(mount) for mount in needs.mounts],
        environment={each.name: each.value for each in needs.variables},
        way=way,
    )
    process.become(words, os.environ)
