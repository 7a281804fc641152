"""``lumicontainer pull``: write an image of a registry to a file."""

import argparse
from pathlib import Path

from lumicontainer.api import sharing
from lumicontainer.api.sharing import PullRequest
from lumicontainer.commands import context
from lumicontainer.system.terminal.output import print_json, say, write_document
from lumicontainer.system.terminal.progress import Progress


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    summary = "the image: oci://HOST/NAME:TAG or oci://HOST/NAME@DIGEST"
    parser.add_argument("reference", metavar="REFERENCE", help=summary)
    summary = "the file to write, whose old content is not fetched again; default: NAME.sif"
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, help=summary)
    context.add_options(parser, "--progress", "--json")


def run(arguments: argparse.Namespace) -> None:
    """Pull the image, and print the path of its file."""
    pulled = sharing.pull(context.request_of(PullRequest, arguments), Progress(arguments.progress))
    if arguments.json:
        print_json(pulled.as_data())
        return
    say(f"{pulled.path.name}: fetched {pulled.traffic()}")
    say(f"it is {pulled.reference}")
    write_document(f"{pulled.path}\n")
