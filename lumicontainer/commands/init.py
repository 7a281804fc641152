"""``lumicontainer init``: write a recipe and a layer to start from."""

import argparse
import shlex
import sys
from pathlib import Path

from lumicontainer.api import beginning
from lumicontainer.api.beginning import InitRequest
from lumicontainer.commands import context
from lumicontainer.system.terminal.output import say, write_document


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    parser.add_argument("name", metavar="NAME", help="the name of the recipe and of its layer")
    summary = "their folder; default: ./NAME"
    parser.add_argument("folder", metavar="DIR", type=Path, nargs="?", help=summary)
    summary = "build on an image, a file or docker://NAME; a layer gets the versions in it"
    parser.add_argument("--base-image", metavar="FILE", help=summary)
    context.add_options(parser, "--mirror")


def run(arguments: argparse.Namespace) -> None:
    """Write the files, and print their paths."""
    name = arguments.name
    paths = beginning.init(context.request_of(InitRequest, arguments))
    write_document("".join(f"{path}\n" for path in paths))
    sys.stdout.flush()
    recipe, _, script, *_ = (shlex.quote(str(path)) for path in paths)
    say(
        f"next steps:\n  $EDITOR {script}\n  lumicontainer check {recipe}\n"
        f"  lumicontainer build {recipe}\n  lumicontainer run {name}.sif -- {name}"
    )
