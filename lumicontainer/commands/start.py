"""Start images: read the image and the command of a verb, and become its process."""

import argparse
import os
from collections.abc import Sequence

from lumicontainer.api.starting import ImageRequest, engine_command, require_command
from lumicontainer.commands import context
from lumicontainer.system import process
from lumicontainer.system.terminal.output import report


def command_of(arguments: argparse.Namespace) -> list[str]:
    """Return the command for a container; raise ``InputError`` if there is none."""
    return require_command(arguments.command, arguments.verb, arguments.image)


def start(arguments: argparse.Namespace, command: Sequence[str], *, way: str = "exec") -> None:
    """Replace this process by a command in an image; ``way`` is that of ``Engine.execute``."""
    request = context.request_of(ImageRequest, arguments)
    process.become(engine_command(request, command, way, report), os.environ)
