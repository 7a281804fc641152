"""``lumicontainer check``: check a recipe against the rules before it is built."""

import argparse

from lumicontainer.api import checking
from lumicontainer.api.checking import CheckRequest
from lumicontainer.commands import context
from lumicontainer.errors import EXAMINED_FAILED, OK


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    context.add_options(parser, *context.RECIPE)
    summary = "print all about one rule, and whether it applies here"
    parser.add_argument("--explain", metavar="RULE", help=summary)
    context.add_options(parser, "--json")


def run(arguments: argparse.Namespace) -> int:
    """Print the rules that apply and those that are not known; fail if an error applies."""
    judgment = checking.check(context.request_of(CheckRequest, arguments))
    context.print_result(judgment, arguments)
    return EXAMINED_FAILED if judgment.failed else OK
