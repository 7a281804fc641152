"""``lumicontainer completion``: what a shell needs to complete commands and options."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from lumicontainer.errors import OK
from lumicontainer.output import write_document

SHELLS = ("bash", "zsh")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    parser.add_argument("shell", choices=SHELLS)


def _path_options(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for sub in action.choices.values():
                yield from _path_options(sub)
        elif action.type is Path:
            yield action


def run(arguments: argparse.Namespace) -> int:
    """Print the completion script."""
    import shtab  # noqa: PLC0415 - only this verb needs it

    from lumicontainer.cli import VERBS, make_parser  # noqa: PLC0415 - the other way round at start

    parser = make_parser(list(VERBS))
    for action in _path_options(parser):
        action.complete = (  # type: ignore[attr-defined]
            shtab.DIRECTORY if action.metavar == "DIR" else shtab.FILE
        )
    write_document(shtab.complete(parser, arguments.shell))
    return OK
