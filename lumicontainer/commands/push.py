"""``lumicontainer push``: send an image to a registry."""

import argparse

from lumicontainer.api import sharing
from lumicontainer.api.sharing import FORMS, PushRequest, SharedImage
from lumicontainer.commands import context
from lumicontainer.system import units
from lumicontainer.system.terminal.output import say, write_document
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
    context.print_result(pushed, arguments, _print)


def _print(pushed: SharedImage) -> None:
    sent = f"{units.size(pushed.moved)} of {units.size(pushed.size)}"
    say(f"{pushed.path.name}: sent {sent}, {pushed.moved_blobs} of {pushed.blobs} blobs")
    write_document(f"{pushed.reference}\n")
