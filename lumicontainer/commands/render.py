"""``lumicontainer render``: print the document that builds the image with a plain engine."""

import argparse

from lumicontainer.build.checks import script_syntax
from lumicontainer.commands import context
from lumicontainer.core.plan.plan import planned
from lumicontainer.core.plan.steps import Plan
from lumicontainer.core.render import render
from lumicontainer.errors import OK
from lumicontainer.host import site
from lumicontainer.system.terminal.masking import without_password
from lumicontainer.system.terminal.output import say, write_document


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    context.add_options(parser, *context.RECIPE)
    parser.add_argument("--format", choices=render.FORMATS, default="def", help="default: def")


def run(arguments: argparse.Namespace) -> int:
    """Print the document; on stderr, how PRoot builds it if the platform requires PRoot."""
    resolved = context.resolved_recipe(arguments)
    script_syntax.refuse_unparsable(resolved)
    plan = planned(resolved)
    platform, recipe = resolved.platform, resolved.recipe.name
    if arguments.format != "def":
        write_document(render.render(plan, arguments.format, mirror=""))
        return OK
    render.check_sections(plan)
    write_document(render.render(plan, arguments.format, mirror=_mirror(plan)))
    if platform.proot:
        command = platform.proot.replace("RECIPE", recipe)
        say(f"note: to build {recipe}.def on a compute node of {platform.name}, run\n{command}")
    return OK


def _mirror(plan: Plan) -> str:
    """Return the mirror of Debian for debootstrap; empty if debootstrap does not make the base."""
    bootstrap = plan.bootstrap
    if plan.resolved.platform.proot or not bootstrap.by_debootstrap:
        return ""
    return without_password(site.require_mirror(site.debian_mirror(bootstrap.release)))
