"""``lumicontainer kernel``: register a Jupyter kernel that runs in an image."""

import argparse
import os
import re
import sys
from pathlib import Path

from lumicontainer.commands import context
from lumicontainer.errors import OK, InputError, Problem
from lumicontainer.extending.mounts import extended
from lumicontainer.frontends.edf import edf, edf_folder, write_squashfs
from lumicontainer.frontends.kernel import kernel, kernels_folder
from lumicontainer.frontends.owned import not_own, write_files
from lumicontainer.host.binds import needs_of, static_needs
from lumicontainer.image import records, sif
from lumicontainer.system.terminal.output import report

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    context.add_options(parser, *context.IMAGE, "--with")
    parser.add_argument("--name", metavar="NAME", help="its name; default: that of the recipe")
    summary = (
        "where to write it: DIR/share/jupyter, with --edf DIR; "
        "default: where Jupyter, or the container engine, looks for files of yours"
    )
    parser.add_argument("--prefix", metavar="DIR", type=Path, help=summary)
    summary = "write the EDF of CSCS's container engine in place of a kernel"
    parser.add_argument("--edf", action="store_true", help=summary)


def run(arguments: argparse.Namespace) -> int:
    """Write the kernel's specification or the EDF, and print its path."""
    image = arguments.image
    sif.read_objects(image)
    name = str(arguments.name or records.resolved(image)["recipe"])
    if not _NAME.fullmatch(name):
        hint = "name another with --name: use letters, digits, '.', '_' and '-'"
        raise InputError(Problem(f"invalid name of a kernel '{name}'", hint=hint))
    platform = context.find_platform(arguments)
    if arguments.edf:
        needs = extended(static_needs(image, platform), image, arguments.extensions)
        file = edf(image, needs, edf_folder(arguments.prefix, os.environ) / f"{name}.toml")
    else:
        needs = extended(needs_of(image, platform), image, arguments.extensions)
        file = kernel(image, needs, name, kernels_folder(arguments.prefix, os.environ))
    for problem in needs.problems:
        report(problem)
    if problems := [*not_own([file], "name another with --name")]:
        raise InputError(*problems)
    if arguments.edf:
        write_squashfs(image)
    list(write_files([file]))
    sys.stdout.write(f"{file.path}\n")
    return OK
