"""``lumicontainer shell``: an interactive shell in an image, started as ``run`` does."""

from __future__ import annotations

import argparse

from lumicontainer.commands import run as run_verb
from lumicontainer.engines import INTERACTIVE
from lumicontainer.errors import OK


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    run_verb.add_image(parser)


def run(arguments: argparse.Namespace) -> int:
    """Become the engine's shell; its exit code is the shell's own."""
    run_verb.start(arguments, (), way=INTERACTIVE)
    return OK
