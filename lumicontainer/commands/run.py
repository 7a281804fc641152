"""``lumicontainer run``: run a command in an image, with the binds of this host."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from lumicontainer.api.signing import require_signature
from lumicontainer.commands import context
from lumicontainer.commands.start import command_of, start
from lumicontainer.errors import InputError, Problem


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    context.add_options(parser, *context.IMAGE, "--with", "--signed-by")
    summary = "refuse an image that no key of your keyring has signed, or that has changed since"
    parser.add_argument("--require-signed", action="store_true", help=summary)
    parser.add_argument(
        "command", metavar="-- COMMAND", nargs=argparse.REMAINDER, help=context.COMMAND
    )


def run(arguments: argparse.Namespace) -> None:
    """Replace this process by the command; its exit code is the result."""
    command = command_of(arguments)
    if arguments.require_signed or arguments.signed_by:
        _refuse_extensions(arguments.extensions)
        require_signature(arguments.image, arguments.signed_by)
    start(arguments, command)


def _refuse_extensions(extensions: Sequence[Path]) -> None:
    """Raise ``InputError`` for packages that would come before those of a signed image."""
    if extensions:
        hint = "add the packages to the image by extend --into, and sign the new image"
        raise InputError(Problem("an extension has no signature", str(extensions[0]), hint=hint))
