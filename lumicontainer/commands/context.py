"""What several verbs share: their options, and the way from these to a plan."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lumicontainer.core.catalog import Catalog, open_catalog, shipped_folder
from lumicontainer.core.resolve.facts import facts_of
from lumicontainer.core.resolve.resolve import Resolved, resolve
from lumicontainer.core.rules.rules import Finding, judge
from lumicontainer.errors import InputError, Problem, did_you_mean
from lumicontainer.host.machine import platform_of
from lumicontainer.system.files.recipe_folder import display
from lumicontainer.system.terminal import output

SUFFIXES = (".yaml", ".yml")
"""By which a recipe's file is known; the second is the one that people write by mistake."""


def add_catalog(parser: argparse.ArgumentParser) -> None:
    """Add the option that names a user's own recipes."""
    parser.add_argument(
        "--recipes",
        metavar="DIR",
        type=Path,
        help="a folder with recipes, layers/, profiles/, envs/ … of your own, which stand first",
    )


def catalog_of(arguments: argparse.Namespace) -> Catalog:
    """Return the command's catalog, which is opened once."""
    if "catalog" not in arguments:
        arguments.catalog = open_catalog(arguments.recipes)
    catalog: Catalog = arguments.catalog
    return catalog


def number(text: str) -> int:
    """Read the value of an option that counts something, from 1 on."""
    if not (text.isascii() and text.isdecimal() and 0 < len(text) < 10 and int(text)):
        raise argparse.ArgumentTypeError(f"expected a whole number from 1 on, got {text!r}")
    return int(text)


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add the option that prints JSON."""
    parser.add_argument("--json", action="store_true", help="print JSON, for machines")


def add_recipe(
    parser: argparse.ArgumentParser,
    *,
    what: str = "a recipe, by its name or its file: the folder of a file is then --recipes",
    metavar: str = "RECIPE",
) -> None:
    """Add the options that decide an image."""
    parser.add_argument("recipe", metavar=metavar, help=what)
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


def find_recipe(arguments: argparse.Namespace) -> None:
    """Take a recipe that is named by its file for one of that name in the file's folder.

    Raises ``InputError`` where there is no such file, or ``--recipes`` names another folder.
    """
    given = getattr(arguments, "recipe", None)
    if not isinstance(given, str) or not ("/" in given or given.endswith(SUFFIXES)):
        return
    path = Path(given)
    _check_recipe_file(path)
    folder = getattr(arguments, "recipes", None)
    if folder and folder.resolve() != path.parent.resolve():
        why = f"the folder of this file is {display(path.parent)}, and --recipes is {folder}"
        hint = "leave --recipes out, or name the recipe by its name"
        raise InputError(Problem("a recipe has one folder", given, why, hint))
    shipped = path.parent.resolve() == shipped_folder("recipes").resolve()
    arguments.recipe, arguments.recipes = path.stem, None if shipped else path.parent
    if getattr(arguments, "kind", "") is None:
        arguments.kind = "recipe"


_INIT = "lumicontainer init NAME writes a recipe to start from"


def _check_recipe_file(path: Path) -> None:
    what = f"there is no file of a recipe '{path}'"
    if path.is_dir():
        hint = "name a file in it"
        raise InputError(Problem(what, why="it is a folder", hint=hint))
    if path.suffix != SUFFIXES[0]:
        other = path.with_suffix(SUFFIXES[0])
        hint = f"did you mean '{other}'?" if other.is_file() else f"rename it to {other.name}"
        raise InputError(Problem(f"'{path}' is not called as a recipe is", hint=hint))
    if not path.is_file():
        there = [str(each) for each in path.parent.glob("*.yaml")]
        raise InputError(Problem(what, hint=did_you_mean(str(path), there) or _INIT))


def named_recipe(arguments: argparse.Namespace) -> str:
    """Return the words of a command line that name the recipe again."""
    if arguments.recipes is None:
        return str(arguments.recipe)
    return shlex.quote(display(arguments.recipes / f"{arguments.recipe}{SUFFIXES[0]}"))


def resolved_recipe(arguments: argparse.Namespace) -> Resolved:
    """Resolve the recipe that the arguments name."""
    catalog = catalog_of(arguments)
    _check_name(arguments, catalog)
    recipe = catalog.recipe(arguments.recipe)
    platform = platform_of(catalog, arguments.platform)
    profile, options = arguments.profile, arguments.options
    return resolve(recipe, catalog, platform=platform, profile=profile, options=options)


def _check_name(arguments: argparse.Namespace, catalog: Catalog) -> None:
    """Raise ``InputError`` where a name is none of a recipe, but a file of it lies near."""
    name = arguments.recipe
    if name not in catalog.recipe_names() and (file := nearby(name)):
        hint = f"name its file: lumicontainer {arguments.verb} {file}"
        raise InputError(Problem(f"there is no recipe '{name}'", hint=hint))


def nearby(name: str) -> str:
    """Return the file of a recipe in the present folder, or where ``init`` puts it."""
    files = (f"./{name}{SUFFIXES[0]}", f"{name}/{name}{SUFFIXES[0]}")
    return next((file for file in files if Path(file).is_file()), "")


def judged(resolved: Resolved, arguments: argparse.Namespace) -> list[Finding]:
    """Judge an image by the rules of what is known to be bad."""
    rules = catalog_of(arguments).rules()
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
