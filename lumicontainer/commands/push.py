"""``lumicontainer push``: send an image to a registry."""

import argparse

from lumicontainer.api import sharing
from lumicontainer.api.sharing import FORMS, PushRequest
from lumicontainer.commands import context
from lumicontainer.system.terminal.output import print_json, say, write_document
from lumicontainer.system.terminal.progress import Progress


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    context.add_options(parser, "image")
    summary = "its name there: oci://HOST/NAME:TAG"
    parser.add_argument("reference", metavar="REFERENCE", help=summary)
    summary = (
        "parts, which images share; sif, which apptainer pull oras:// reads; or oci, an ordinary "
        "OCI image, which docker pull reads; default: parts"
    )
    parser.add_argument("--format", dest="form", choices=FORMS, default=None, help=summary)
    context.add_options(parser, "--progress", "--json")


def run(arguments: argparse.Namespace) -> None:
    """Push the image, and print its name by its digest."""
    request = context.request_of(PushRequest, arguments)
    pushed = sharing.push(request, Progress(arguments.progress))
    if arguments.json:
        print_json(pushed.as_data())
        return
    say(f"{pushed.path.name}: sent {pushed.traffic()}")
    write_document(f"{pushed.reference}\n")
