"""``lumicontainer diff``: print what changes from one image, recipe, lock or profile to another."""

import argparse
import re
import sys
from collections.abc import Iterator
from typing import Any

from lumicontainer.api.differences import DiffRequest, find_differences
from lumicontainer.commands import context
from lumicontainer.system import units
from lumicontainer.system.terminal.output import line, print_json, print_table, say, write_document
from lumicontainer.trust.differences import RULES, Change, Differences


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    summary = "an image, a lock, a profile, or a recipe: NAME, NAME@PROFILE or its file"
    parser.add_argument("before", metavar="A", help=summary)
    parser.add_argument("after", metavar="B", help="what it is compared with")
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
        write_document("".join(f"{row}\n" for row in _markdown(result)))
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
    before, after = _value(change.before), _value(change.after)
    if section == RULES:
        return f"begins to hold: {after}" if change.before is None else f"ceases to hold: {before}"
    if change.before is None or change.after is None:
        return after if change.before is None else before
    return f"{before or '(none)'} -> {after or '(none)'}"


def _value(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, dict):
        size = units.size(value["bytes"]) if "bytes" in value else ""
        return ", ".join(filter(None, (value.get("version", ""), size, value.get("key", ""))))
    return units.size(value) if isinstance(value, int) else str(value)


def _markdown(result: Differences) -> Iterator[str]:
    yield f"## From {_code(result.before)} to {_code(result.after)}"
    if not result.sections:
        yield "\nNo differences."
    for section, changes in result.sections.items():
        yield f"\n### {section[0].upper()}{section[1:]}\n"
        yield "| name | before | after |\n|---|---|---|"
        for each in changes:
            cells = (each.name, _value(each.before), _value(each.after))
            yield f"| {' | '.join(map(_cell, cells))} |"


def _cell(text: str) -> str:
    return _code(text).replace("|", "\\|")


def _code(text: str) -> str:
    """Return text as code: what an image holds becomes no link, no picture and no mention."""
    text = line(text)
    fence = "`" * (max(map(len, re.findall("`+", text)), default=0) + 1)
    space = " " if text[:1] == "`" or text[-1:] == "`" else ""
    return f"{fence}{space}{text}{space}{fence}" if text else ""
