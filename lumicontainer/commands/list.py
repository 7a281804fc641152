"""``lumicontainer list``: the recipes, layers and platforms that are known."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TypeAlias

from lumicontainer.commands import context
from lumicontainer.core.catalog import Catalog, open_catalog
from lumicontainer.core.model import Layer, Platform, Profile, Recipe
from lumicontainer.errors import INPUT_WRONG, OK, InputError, Problem, Problems
from lumicontainer.host.machine import detect_platform
from lumicontainer.system.terminal.output import report

Reader: TypeAlias = Callable[[str], Recipe | Profile | Layer | Platform]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    context.add_catalog(parser)
    context.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print what is known; report what cannot be read, which hides nothing else."""
    catalog = open_catalog(arguments.recipes)
    broken: dict[Problem, None] = {}
    kinds: Mapping[str, tuple[list[str], Reader]] = {
        "recipes": (catalog.recipe_names(), catalog.recipe),
        "profiles": (catalog.profile_names(), catalog.profile),
        "layers": (catalog.layer_names(), partial(_layer, catalog)),
        "platforms": (catalog.platform_names(), catalog.platform),
    }
    found = {kind: _summaries(*each, broken) for kind, each in kinds.items()}
    here = _here(catalog, broken)
    if arguments.json:
        context.print_json({**found, "platform_here": here})
    else:
        _print(found, here)
    for problem in broken:
        report(problem)
    return INPUT_WRONG if broken else OK


def _print(found: Mapping[str, Mapping[str, str]], here: str | None) -> None:
    for kind, entries in found.items():
        sys.stdout.write(f"{kind}\n")
        context.print_table(
            [
                (name, summary + (" (this host)" if kind == "platforms" and name == here else ""))
                for name, summary in entries.items()
            ]
        )


def _summaries(names: Iterable[str], read: Reader, broken: dict[Problem, None]) -> dict[str, str]:
    summaries = {}
    for name in names:
        try:
            summaries[name] = read(name).summary
        except InputError as error:
            broken |= dict.fromkeys(error.problems)
            summaries[name] = "(cannot be read)"
    return summaries


def _layer(catalog: Catalog, name: str) -> Layer:
    problems = Problems()
    layer = catalog.layer(name, problems)
    problems.raise_if_any()
    assert layer is not None
    return layer


def _here(catalog: Catalog, broken: dict[Problem, None]) -> str | None:
    try:
        return detect_platform(catalog).name
    except InputError as error:
        broken |= dict.fromkeys(error.problems)
        return None
