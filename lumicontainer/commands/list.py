"""``lumicontainer list``: the recipes, profiles, layers and platforms."""

import argparse

from lumicontainer.api.documents import list_documents
from lumicontainer.commands import context
from lumicontainer.errors import INPUT_WRONG, OK
from lumicontainer.system.terminal.output import report


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    context.add_options(parser, "--recipes", "--json")


def run(arguments: argparse.Namespace) -> int:
    """Print the names and summaries; report documents that cannot be read."""
    listing = list_documents(arguments.recipes)
    context.print_result(listing, arguments)
    for problem in listing.problems:
        report(problem)
    return INPUT_WRONG if listing.problems else OK
