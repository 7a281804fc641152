"""``lumicontainer diff``: print what changes from one image, recipe, lock or profile to another."""

import argparse
import sys

from lumicontainer.api.differences import DiffRequest, find_differences
from lumicontainer.commands import context
from lumicontainer.system.terminal.output import line, print_json, print_table, say, write_document
from lumicontainer.trust.differences import RULES, Change, Differences
from lumicontainer.trust.differences_text import markdown, shown_value


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
        _print(result)


def _print(result: Differences) -> None:
    if not result.sections:
        sys.stdout.write("no differences\n")
    for section, changes in result.sections.items():
        sys.stdout.write(f"{section}\n")
        print_table(
            [(f"{_mark(each)} {each.name}", line(_words(section, each))) for each in changes]
        )


def _mark(change: Change) -> str:
    return "+" if change.before is None else "-" if change.after is None else "~"


def _words(section: str, change: Change) -> str:
    before, after = shown_value(change.before), shown_value(change.after)
    if section == RULES:
        return f"begins to hold: {after}" if change.before is None else f"ceases to hold: {before}"
    if change.before is None or change.after is None:
        return after if change.before is None else before
    return f"{before or '(none)'} -> {after or '(none)'}"
