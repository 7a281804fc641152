"""``lumicontainer kernel``: register a Jupyter kernel that runs in an image."""

import argparse
import sys
from pathlib import Path

from lumicontainer.api import starting
from lumicontainer.api.starting import KernelRequest
from lumicontainer.commands import context
from lumicontainer.system.terminal.output import report


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    context.add_options(parser, *context.IMAGE, "--with")
    parser.add_argument("--name", metavar="NAME", help="the kernel's name; default: the recipe's")
    summary = (
        "write below DIR/share/jupyter, or into DIR with --edf; "
        "default: your own folder of Jupyter or of the container engine"
    )
    parser.add_argument("--prefix", metavar="DIR", type=Path, help=summary)
    summary = "write the EDF of CSCS's container engine in place of a kernel"
    parser.add_argument("--edf", action="store_true", help=summary)


def run(arguments: argparse.Namespace) -> None:
    """Write the kernel's specification or the EDF, and print its path."""
    request = context.request_of(KernelRequest, arguments)
    sys.stdout.write(f"{starting.write_kernel(request, report)}\n")
