"""``lumicontainer render``: print the document that builds the image with a plain engine."""

import argparse

from lumicontainer.api import rendering
from lumicontainer.api.rendering import DEFINITION, RenderRequest
from lumicontainer.commands import context
from lumicontainer.core.render.render import FORMATS
from lumicontainer.system.terminal.output import say, write_document


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    context.add_options(parser, *context.RECIPE)
    parser.add_argument(
        "--format", choices=FORMATS, default=DEFINITION, help="default: %(default)s"
    )


def run(arguments: argparse.Namespace) -> None:
    """Print the document; on stderr, how PRoot builds it if the platform requires PRoot."""
    request = context.request_of(RenderRequest, arguments)
    rendered = rendering.render(request)
    write_document(rendered.text)
    if rendered.note:
        say(rendered.note)
