"""``lumicontainer show``: every value of an image, and where it came from."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from lumicontainer.commands import common
from lumicontainer.errors import OK
from lumicontainer.plan import make_plan, record
from lumicontainer.resolve import Resolved, ResolvedLayer, unpinned
from lumicontainer.shell import shell_value

ORIGINS = {
    "layer": "the layer's default",
    "variant": "the layer's variant for this accelerator",
    "recipe": "the recipe",
    "option": "the command line",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    common.add_recipe(parser)
    common.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the resolved recipe."""
    resolved = common.resolved_recipe(arguments)
    if arguments.json:
        common.print_json(as_data(resolved))
        return OK
    recipe, platform = resolved.recipe, resolved.platform
    out = sys.stdout.write
    out(f"{recipe.name}: {recipe.summary}\n")
    out(f"platform {platform.name}: {platform.summary} (accelerator {platform.accelerator})\n")
    for layer in resolved.layers:
        out(f"\n{layer.name}: {layer.summary}\n")
        _print_layer(layer)
    return OK


def _print_layer(layer: ResolvedLayer) -> None:
    if layer.omitted:
        sys.stdout.write(f"  left out: {layer.omitted}\n")
        return
    common.print_table(
        [
            (
                setting.name,
                shell_value(setting.value),
                f"{ORIGINS[setting.origin]}, {setting.place}",
            )
            for setting in layer.settings
        ]
    )
    for name, value in layer.content.environment.items():
        sys.stdout.write(f"  environment {name}={value}\n")
    for folder in layer.content.path:
        sys.stdout.write(f"  path {folder}\n")
    for source in layer.content.sources:
        if source.sha256:
            sys.stdout.write(f"  source {source.python}, sha256 {source.sha256}\n")
    open_inputs = unpinned(layer)
    if open_inputs:
        sys.stdout.write(f"  not pinned: {', '.join(open_inputs)}\n")


def as_data(resolved: Resolved) -> dict[str, Any]:
    """Return the resolved recipe as plain data."""
    data = record(resolved)
    for layer in resolved.included():
        entry = data["layers"][layer.name]
        entry["places"] = {setting.name: setting.place for setting in layer.settings}
        entry["not_pinned"] = list(unpinned(layer))
    data["steps"] = [{"name": step.name, "key": step.key} for step in make_plan(resolved, ()).steps]
    return data
