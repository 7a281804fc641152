"""``lumicontainer completion``: what a shell needs to complete commands and options."""

from __future__ import annotations

import argparse
import sys

from lumicontainer.errors import OK

SHELLS = ("bash", "zsh", "tcsh")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    parser.add_argument("shell", choices=SHELLS)


def run(arguments: argparse.Namespace) -> int:
    """Print the completion script."""
    import shtab  # noqa: PLC0415 - only this verb needs it

    from lumicontainer.cli import VERBS, make_parser  # noqa: PLC0415 - the other way round at start

    sys.stdout.write(shtab.complete(make_parser(list(VERBS)), arguments.shell))
    return OK
