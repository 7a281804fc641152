"""``lumicontainer push``: send an image to a registry."""

import argparse

from lumicontainer.api import sharing
from lumicontainer.api.sharing import FORMS, PushRequest
from lumicontainer.commands import context
from lumicontainer.system import units
from lumicontainer.system.terminal.output import as_json, say, write_document
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
        write_document(as_json(pushed.as_data()) + "\n")
        return
    sent = f"{units.size(pushed.moved)} of {units.size(pushed.size)}"
    say(f"{request.image.name}: sent {sent}, {pushed.moved_blobs} of {pushed.blobs} blobs")
    write_document(f"{pushed.reference}\n")
