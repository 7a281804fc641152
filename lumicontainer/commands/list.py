"""``lumicontainer list``: the recipes, profiles, layers and platforms."""

import argparse
import sys
from collections.abc import Callable
from typing import Any

from lumicontainer.commands import context
from lumicontainer.core.catalog import open_catalog
from lumicontainer.errors import INPUT_WRONG, OK, InputError, Problem, Problems
from lumicontainer.host.machine import platform_here
from lumicontainer.system.terminal.output import print_json, print_table, report


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    context.add_options(parser, "--recipes", "--json")


def run(arguments: argparse.Namespace) -> int:
    """Print the names and summaries; report documents that cannot be read."""
    problems = Problems()
    catalog = open_catalog(arguments.recipes, problems)
    broken = dict.fromkeys(problems.found)
    readers: dict[str, Callable[[str], Any]] = {
        "recipe": catalog.recipe,
        "profile": catalog.profile,
        "layer": catalog.layer,
        "platform": catalog.platform,
    }
    found = {}
    for kind, read in readers.items():
        names = catalog.names(kind)
        found[f"{kind}s"] = {name: _summary(read, name, broken) for name in names}
    # Those that cannot be read are among the broken already.
    here = platform_here(catalog.detected(Problems()))
    if arguments.json:
        print_json({**found, "platform_here": here})
    else:
        _print(found, here)
    for problem in broken:
        report(problem)
    return INPUT_WRONG if broken else OK


def _print(found: dict[str, dict[str, str]], here: str) -> None:
    for kind, entries in found.items():
        sys.stdout.write(f"{kind}\n")
        marks = {here: " (this host)"} if kind == "platforms" else {}
        rows = [(name, f"{text}{marks.get(name, '')}") for name, text in entries.items()]
        print_table(rows)


def _summary(read: Callable[[str], Any], name: str, broken: dict[Problem, None]) -> str:
    try:
        return str(read(name).summary)
    except InputError as error:
        broken |= dict.fromkeys(error.problems)
        return "(cannot be read)"
