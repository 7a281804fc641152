"""``lumicontainer render``: the document that builds the image with a plain engine."""

from __future__ import annotations

import argparse
import sys

from lumicontainer import render, site
from lumicontainer.commands import common
from lumicontainer.errors import OK


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    common.add_recipe(parser)
    parser.add_argument(
        "--format", choices=tuple(render.FORMATS), default="def", help="default: def"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the document."""
    plan = common.planned(common.resolved_recipe(arguments))
    mirror = ""
    if arguments.format == "def":
        render.check_sections(plan)
    if arguments.format == "def" and plan.bootstrap.agent == "debootstrap":
        mirror = site.require_mirror(site.debian_mirror(plan.bootstrap.release))
    sys.stdout.write(render.render(plan, arguments.format, mirror=mirror))
    return OK
