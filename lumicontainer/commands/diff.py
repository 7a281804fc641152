"""``lumicontainer diff``: print what changes from one image, recipe, lock or profile to another."""

import argparse

from lumicontainer.api.differences import DiffRequest, find_differences
from lumicontainer.commands import context
from lumicontainer.system.terminal.output import print_json, say, write_document
from lumicontainer.system.terminal.printing import print_text
from lumicontainer.trust.differences_text import markdown, plain_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    summary = "an image, a lock, a profile, or a recipe: NAME, NAME@PROFILE or its file"
    parser.add_argument("before", metavar="A", help=summary)
    parser.add_argument(
        "after", metavar="B", help="the image, lock, profile or recipe to compare it with"
    )
    context.add_options(parser, "--platform", "--recipes")
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--markdown", action="store_true", help="print Markdown")
    context.add_options(group, "--json")


def run(arguments: argparse.Namespace) -> None:
    """Print the differences; the exit code is 0 also if there are some."""
    result = find_differences(context.request_of(DiffRequest, arguments))
    if arguments.json:
        print_json(result.as_data())
        return
    for section in result.unknown:
        say(f"note: not compared, because one side does not say it: {section}")
    if arguments.markdown:
        write_document(markdown(result))
    else:
        print_text(plain_text(result))
