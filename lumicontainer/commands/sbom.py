"""``lumicontainer sbom``: print the bill of materials of an image."""

import argparse

from lumicontainer.api.bills import CYCLONEDX, SPDX, BillRequest, bill_of_materials
from lumicontainer.commands import context
from lumicontainer.system.terminal.output import report, write_document


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    context.add_options(parser, "image")
    summary = "the format, both in JSON: CycloneDX 1.6 or SPDX 2.3; default: %(default)s"
    parser.add_argument("--format", choices=(CYCLONEDX, SPDX), default=CYCLONEDX, help=summary)
    context.add_options(parser, "--json")


def run(arguments: argparse.Namespace) -> None:
    """Print the bill that the image has, or one made from its files."""
    content = bill_of_materials(context.request_of(BillRequest, arguments), report)
    write_document(content.decode("utf-8", "replace"))
