"""``lumicontainer shell``: open a shell in an image, which starts as ``run`` starts it."""

import argparse

from lumicontainer.commands import context
from lumicontainer.commands.start import start
from lumicontainer.engines import INTERACTIVE


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    context.add_options(parser, *context.IMAGE, "--with")


def run(arguments: argparse.Namespace) -> None:
    """Replace this process by the shell; its exit code is the result."""
    start(arguments, (), way=INTERACTIVE)
