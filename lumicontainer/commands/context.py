"""What several verbs share: their options, the catalog, and the resolved recipe."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lumicontainer.build.lock_files import open_lock
from lumicontainer.core.catalog import Catalog, open_catalog, shipped_folder
from lumicontainer.core.lock.lock import Lock, apply_lock, faults, file_name
from lumicontainer.core.model import Platform
from lumicontainer.core.resolve.facts import facts_of
from lumicontainer.core.resolve.resolve import Resolved, resolve
from lumicontainer.core.rules.rules import Finding, judge
from lumicontainer.errors import InputError, LockError, Problem, did_you_mean
from lumicontainer.host.machine import platform_of
from lumicontainer.system.files.recipe_folder import display
from lumicontainer.system.terminal import output
from lumicontainer.system.terminal.progress import FORMS

SUFFIX = ".yaml"
OPTIONS: Mapping[str, dict[str, Any]] = {
    "image": {"metavar": "IMAGE", "type": Path, "help": "the file of an image"},
    "recipe": {
        "metavar": "RECIPE",
        "help": "a recipe, by its name or its file; its folder then is --recipes",
    },
    "--recipes": {
        "metavar": "DIR",
        "type": Path,
        "help": "a folder of your own with recipes, layers/, profiles/ and envs/, searched first",
    },
    "--platform": {"metavar": "NAME", "help": "where it runs; default: the platform of this host"},
    "--profile": {
        "metavar": "NAME",
        "default": "",
        "help": "the set of versions; default: the platform's, else the first of the recipe",
    },
    "--set": {
        "metavar": "LAYER.PARAMETER=VALUE",
        "action": "append",
        "default": [],
        "dest": "options",
        "help": "set a parameter of a layer; can be repeated",
    },
    "--mirror": {
        "metavar": "FROM=TO",
        "action": "append",
        "default": [],
        "help": "read URLs that begin with FROM from TO instead, a URL or a folder of this host; "
        "can be repeated; ~/.config/lumicontainer/mirrors.yaml holds permanent ones",
    },
    "--progress": {
        "choices": FORMS,
        "default": "auto",
        "help": "the form of the progress on stderr; default: %(default)s",
    },
    "--json": {"action": "store_true", "help": "print JSON"},
}
"""The options that several verbs have, as ``add_argument`` takes them."""
RECIPE = ("recipe", "--platform", "--profile", "--set", "--recipes")
IMAGE = ("image", "--platform", "--recipes")


def add_options(parser: argparse.ArgumentParser, *names: str) -> None:
    """Add options of ``OPTIONS`` to the parser of a verb."""
    for name in names:
        parser.add_argument(name, **OPTIONS[name])


def number(text: str) -> int:
    """Read the value of an option that counts something, from 1 on."""
    if not (text.isascii() and text.isdecimal() and 0 < len(text) < 10 and int(text)):
        raise argparse.ArgumentTypeError(f"expected a whole number from 1 on, got {text!r}")
    return int(text)


def catalog_of(arguments: argparse.Namespace) -> Catalog:
    """Return the command's catalog, which is opened once."""
    if "catalog" not in arguments:
        arguments.catalog = open_catalog(arguments.recipes)
    catalog: Catalog = arguments.catalog
    return catalog


def find_platform(arguments: argparse.Namespace) -> Platform:
    """Return the platform that ``--platform`` names, else that of this host."""
    return platform_of(catalog_of(arguments), arguments.platform)


def find_recipe(arguments: argparse.Namespace) -> None:
    """Replace the file of a recipe in the arguments by the recipe's name and its folder.

    Raises ``InputError`` if the file is missing, or ``--recipes`` names another folder.
    """
    given = getattr(arguments, "recipe", None)
    if not isinstance(given, str) or not ("/" in given or given.endswith((SUFFIX, ".yml"))):
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


def _check_recipe_file(path: Path) -> None:
    if path.is_dir():
        hint = "name a file in it"
        raise InputError(Problem(f"expected the file of a recipe, got folder '{path}'", hint=hint))
    if path.suffix != SUFFIX:
        other = path.with_suffix(SUFFIX)
        hint = f"did you mean '{other}'?" if other.is_file() else f"rename it to {other.name}"
        raise InputError(Problem(f"the name of recipe '{path}' must end in {SUFFIX}", hint=hint))
    if not path.is_file():
        near = did_you_mean(str(path), map(str, path.parent.glob(f"*{SUFFIX}")))
        hint = near or "lumicontainer init NAME writes a recipe to start from"
        raise InputError(Problem(f"recipe file '{path}' not found", hint=hint))


def recipe_word(arguments: argparse.Namespace) -> str:
    """Return the word that names the recipe on a command line."""
    if arguments.recipes is None:
        return str(arguments.recipe)
    return shlex.quote(display(arguments.recipes / f"{arguments.recipe}{SUFFIX}"))


def nearby(name: str) -> str:
    """Return the file of a recipe in the current folder, or where ``init`` writes it."""
    files = (f"./{name}{SUFFIX}", f"{name}/{name}{SUFFIX}")
    return next((file for file in files if Path(file).is_file()), "")


def resolved_recipe(arguments: argparse.Namespace) -> Resolved:
    """Resolve the recipe that the arguments name."""
    catalog, name = catalog_of(arguments), arguments.recipe
    if name not in catalog.recipe_names() and (file := nearby(name)):
        hint = f"name its file: lumicontainer {arguments.verb} {file}"
        raise InputError(Problem(f"recipe '{name}' not found", hint=hint))
    return resolve(
        catalog.recipe(name),
        catalog,
        platform=find_platform(arguments),
        profile=arguments.profile,
        options=arguments.options,
    )


def judged(resolved: Resolved, arguments: argparse.Namespace) -> list[Finding]:
    """Judge an image by the rules."""
    return judge(catalog_of(arguments).rules().values(), facts_of(resolved))


def lock_of(resolved: Resolved, arguments: argparse.Namespace) -> tuple[str, Lock] | None:
    """Return the lock of an image with the path of its file, if it has one."""
    file = catalog_of(arguments).lock(file_name(resolved))
    return (display(file.path()), open_lock(*file)) if file else None


def locked(resolved: Resolved, arguments: argparse.Namespace) -> Resolved:
    """Return an image with the pins of its lock; raise ``LockError`` if one is missing."""
    profile = f" --profile {resolved.profile.name}" if resolved.profile else ""
    platform = resolved.platform.name
    hint = f"lumicontainer lock {recipe_word(arguments)} --platform {platform}{profile}"
    found = lock_of(resolved, arguments)
    if found is None:
        where = f"locks/{file_name(resolved)}"
        raise LockError(Problem("this image has no lock", where, hint=hint))
    path, lock = found
    if wrong := faults(lock, resolved):
        what = "the lock does not pin all of the image"
        raise LockError(Problem(what, path, "\n".join(wrong), hint))
    return apply_lock(resolved, lock)


def print_json(value: Any) -> None:
    """Print a value as JSON to stdout."""
    sys.stdout.write(output.as_json(value, indent=2) + "\n")


def print_table(rows: Sequence[Sequence[str]]) -> None:
    """Print rows in aligned columns to stdout."""
    lines = [[output.line(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for row in lines:
        cells = map(str.ljust, row, widths)
        sys.stdout.write(f"  {'  '.join(cells)}".rstrip() + "\n")
