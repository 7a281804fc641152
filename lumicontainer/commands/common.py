"""What several verbs share: their options, and the way from these to a plan."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lumicontainer import output
from lumicontainer.catalog import open_catalog
from lumicontainer.facts import facts_of
from lumicontainer.machine import platform_of
from lumicontainer.resolve import Resolved, resolve
from lumicontainer.rules import Finding, judge


def add_catalog(parser: argparse.ArgumentParser) -> None:
    """Add the option that names a user's own recipes."""
    parser.add_argument(
        "--recipes",
        metavar="DIR",
        type=Path,
        help="a folder with recipes, layers/, profiles/, envs/ … of your own, which stand first",
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add the option that prints JSON."""
    parser.add_argument("--json", action="store_true", help="print JSON, for machines")


def add_recipe(parser: argparse.ArgumentParser, *, what: str = "the name of a recipe") -> None:
    """Add the options that decide an image."""
    parser.add_argument("recipe", metavar="RECIPE", help=what)
    parser.add_argument(
        "--platform", metavar="NAME", help="where it will run; default: what fits this host"
    )
    parser.add_argument(
        "--profile",
        metavar="NAME",
        default="",
        help="the set of versions to build; default: what the platform or the recipe names first",
    )
    parser.add_argument(
        "--set",
        metavar="LAYER.PARAMETER=VALUE",
        action="append",
        default=[],
        dest="options",
        help="set a parameter of a layer; may be given again",
    )
    add_catalog(parser)


def add_mirror(parser: argparse.ArgumentParser) -> None:
    """Add the option that says where a site has what recipes name."""
    parser.add_argument(
        "--mirror",
        metavar="FROM=TO",
        action="append",
        default=[],
        help="take what is at URLs that begin with FROM from TO, a URL or a folder of this host; "
        "may be given again; ~/.config/lumicontainer/mirrors.yaml holds lasting ones",
    )


def resolved_recipe(arguments: argparse.Namespace) -> Resolved:
    """Resolve the recipe that the arguments name."""
    catalog = open_catalog(arguments.recipes)
    recipe = catalog.recipe(arguments.recipe)
    platform = platform_of(catalog, arguments.platform)
    profile, options = arguments.profile, arguments.options
    return resolve(recipe, catalog, platform=platform, profile=profile, options=options)


def judged(resolved: Resolved, arguments: argparse.Namespace) -> list[Finding]:
    """Judge an image by the rules of what is known to be bad."""
    rules = open_catalog(arguments.recipes).rules()
    return judge(rules.values(), facts_of(resolved))


def print_json(value: Any) -> None:
    """Print a value as JSON to stdout."""
    sys.stdout.write(output.as_json(value, indent=2) + "\n")


def print_table(rows: Sequence[tuple[str, ...]], *, indent: str = "  ") -> None:
    """Print rows in columns to stdout; the last column is as wide as it is."""
    rows = [tuple(map(output.line, row)) for row in rows]
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))] if rows else []
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        sys.stdout.write((indent + "  ".join(cells)).rstrip() + "\n")
