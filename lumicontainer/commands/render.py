"""``lumicontainer render``: the document that builds the image with a plain engine."""

from __future__ import annotations

import argparse

from lumicontainer.commands import context
from lumicontainer.core.plan.plan import Plan, planned
from lumicontainer.core.render import proot, render
from lumicontainer.errors import OK
from lumicontainer.host import site
from lumicontainer.system.terminal.masking import without_password
from lumicontainer.system.terminal.output import say, write_document


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    context.add_recipe(parser)
    parser.add_argument("--format", choices=render.FORMATS, default="def", help="default: def")


def run(arguments: argparse.Namespace) -> int:
    """Print the document, and on stderr how it is built where that is not plain."""
    plan = planned(context.resolved_recipe(arguments))
    mirror = ""
    if arguments.format == "def":
        render.check_sections(plan)
        mirror = _mirror(plan)
    write_document(render.render(plan, arguments.format, mirror=mirror))
    platform, recipe = plan.resolved.platform, plan.resolved.recipe.name
    if arguments.format == "def" and platform.proot:
        say(
            f"note: on a compute node of the platform {platform.name}, {recipe}.def is built by\n"
            f"{proot.command(platform, recipe)}"
        )
    return OK


def _mirror(plan: Plan) -> str:
    """Return where debootstrap finds the base, if it is to make it."""
    bootstrap = plan.bootstrap
    if plan.resolved.platform.proot or bootstrap.agent != "debootstrap":
        return ""
    mirror = site.require_mirror(site.debian_mirror(bootstrap.release))
    return without_password(mirror)
