"""``lumicontainer list``: the recipes, profiles, layers and platforms."""

import argparse
import sys

from lumicontainer.api.documents import Listing, list_documents
from lumicontainer.commands import context
from lumicontainer.errors import INPUT_WRONG, OK
from lumicontainer.system.terminal.output import print_table, report


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    context.add_options(parser, "--recipes", "--json")


def run(arguments: argparse.Namespace) -> int:
    """Print the names and summaries; report documents that cannot be read."""
    listing = list_documents(arguments.recipes)
    context.print_result(listing, arguments, _print)
    for problem in listing.problems:
        report(problem)
    return INPUT_WRONG if listing.problems else OK


def _print(listing: Listing) -> None:
    for kind, entries in listing.documents.items():
        sys.stdout.write(f"{kind}s\n")
        marks = {listing.platform_here: " (this host)"} if kind == "platform" else {}
        rows = [(name, f"{text}{marks.get(name, '')}") for name, text in entries.items()]
        print_table(rows)
