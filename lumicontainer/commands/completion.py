"""``lumicontainer completion``: print the completion script of a shell.

The script runs ``lumicontainer completion names KIND WORD…`` for the current names, also in the
folder of recipes that the command line names.
"""

import argparse

from lumicontainer.commands.parser import VERBS, make_parser
from lumicontainer.frontends.completion import names_of
from lumicontainer.frontends.completion_script import SHELLS, VERB, completion_script
from lumicontainer.system.terminal.output import write_document

NAMES = "names"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    shells = "{" + ",".join(SHELLS) + "}"
    parser.add_argument("shell", choices=(*SHELLS, NAMES), metavar=shells)
    parser.add_argument("words", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> None:
    """Print the completion script, or names for it."""
    if arguments.shell == NAMES:
        kind, *words = arguments.words or [""]
        names = VERBS if kind == VERB else names_of(kind, words)
        write_document("".join(f"{name}\n" for name in sorted(names)))
    else:
        write_document(completion_script(make_parser(list(VERBS)), arguments.shell))
