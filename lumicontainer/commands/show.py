"""``lumicontainer show``: print every value of a recipe and its origin, or one document."""

import argparse

from lumicontainer.api import documents
from lumicontainer.api.documents import KINDS, ShowRequest
from lumicontainer.commands import context
from lumicontainer.system.terminal.output import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    summary = "the name or file of a recipe, or the name of a platform, a profile or a layer"
    parser.add_argument("recipe", metavar="NAME", help=summary)
    context.add_options(parser, *context.RECIPE[1:])
    summary = "the kind of NAME; default: the first kind that has it"
    parser.add_argument("--kind", choices=KINDS, help=summary)
    context.add_options(parser, "--json")


def run(arguments: argparse.Namespace) -> None:
    """Print the recipe, platform, profile or layer of the given name."""
    name = arguments.recipe
    shown = documents.show(context.request_of(ShowRequest, arguments))
    for other in shown.other_kinds:
        say(f"note: there is a {other} '{name}' too: lumicontainer show {name} --kind {other}")
    context.print_result(shown, arguments)
