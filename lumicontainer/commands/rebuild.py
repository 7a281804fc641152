"""``lumicontainer rebuild``: make an image again from its provenance, and compare the layers."""

import argparse
from pathlib import Path

from lumicontainer.api.rebuilding import RebuildRequest, rebuild
from lumicontainer.commands import context
from lumicontainer.errors import EXAMINED_FAILED, OK
from lumicontainer.system.terminal.output import report
from lumicontainer.system.terminal.progress import Progress


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    context.add_options(parser, "image")
    add = parser.add_argument
    summary = "the file of the new image; default: the image's name with .rebuilt.sif"
    add("--output", "-o", metavar="FILE", type=Path, help=summary)
    summary = "the name or file of its recipe; default: the name in its provenance"
    add("--recipe", metavar="RECIPE", default="", help=summary)
    context.add_options(parser, "--recipes")
    add("--cached", action="store_true", help="take layers from the cache, and run no step again")
    context.add_options(parser, "--progress", "--json")


def run(arguments: argparse.Namespace) -> int:
    """Build the image again; fail if a layer differs."""
    request = context.request_of(RebuildRequest, arguments)
    rebuilt = rebuild(request, Progress(arguments.progress), report)
    context.print_result(rebuilt, arguments)
    return OK if rebuilt.is_same else EXAMINED_FAILED
