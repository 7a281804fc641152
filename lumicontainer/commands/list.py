"""``lumicontainer list``: the recipes, layers and platforms that are known."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from lumicontainer.catalog import Catalog, open_catalog
from lumicontainer.commands import common
from lumicontainer.document import Problems
from lumicontainer.errors import OK, InputError
from lumicontainer.machine import detect_platform


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    common.add_catalog(parser)
    common.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print what is known."""
    catalog = open_catalog(arguments.recipes)
    found = {
        "recipes": dict(_recipes(catalog)),
        "profiles": {name: catalog.profile(name).summary for name in catalog.profile_names()},
        "layers": _layers(catalog),
        "platforms": {name: catalog.platform(name).summary for name in catalog.platform_names()},
    }
    here = detect_platform(catalog).name
    if arguments.json:
        common.print_json({**found, "platform_here": here})
        return OK
    for kind, entries in found.items():
        sys.stdout.write(f"{kind}\n")
        common.print_table(
            [
                (name, summary + (" (this host)" if kind == "platforms" and name == here else ""))
                for name, summary in entries.items()
            ]
        )
    return OK


def _recipes(catalog: Catalog) -> Iterator[tuple[str, str]]:
    """Yield each recipe with its summary; a broken one says so and hides no other."""
    for name in catalog.recipe_names():
        try:
            yield name, catalog.recipe(name).summary
        except InputError as error:
            sys.stderr.write(f"{error}\n")
            yield name, "(cannot be read)"


def _layers(catalog: Catalog) -> dict[str, str]:
    problems = Problems()
    layers = {name: catalog.layer(name, problems) for name in catalog.layer_names()}
    problems.raise_if_any()
    return {name: layer.summary for name, layer in layers.items() if layer}
