"""``lumicontainer completion``: print the completion script of a shell.

The script runs ``lumicontainer completion names KIND WORD…`` for the current names, also in the
folder of recipes that the command line names.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import shtab

from lumicontainer.commands.parser import VERBS, make_parser
from lumicontainer.frontends.completion import KINDS, names_of
from lumicontainer.system.terminal.output import write_document

SHELLS = ("bash", "zsh")
NAMES, VERB = "names", "verb"
_FILES = ("FILE", "KEY", "A", "B", "JOB|FOLDER", "-- COMMAND", "-- PROGRAM")
"""Options whose values can be names of files, but are read as text."""
_SCRIPTS = Path(__file__).parents[1] / "host/scripts"


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
        write_document(_script(arguments.shell))


def _script(shell: str) -> str:
    parser = make_parser(list(VERBS))
    for action in _actions(parser):
        _set_completion(action)
    before, after = (_SCRIPTS / f"completion-{part}.{shell}" for part in ("names", "start"))
    preamble: Any = {shell: before.read_text()}
    script = shtab.complete(parser, shell, preamble=preamble)
    return f"{script}\n{after.read_text() if after.exists() else ''}"


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for sub in action.choices.values():
                yield from _actions(sub)
        else:
            yield action


def _set_completion(action: Any) -> None:
    if action.dest == "shell":
        action.choices = SHELLS
    kind = "any" if (action.dest, action.metavar) == ("recipe", "NAME") else action.dest
    kind = {"values": "parameter", "verb_words": VERB}.get(kind, kind)
    if kind in (*KINDS, VERB) and action.nargs != 0:
        action.complete = dict.fromkeys(SHELLS, f"_lumicontainer_{kind}")
    elif action.type is Path or action.metavar in _FILES:
        action.complete = shtab.DIRECTORY if action.metavar == "DIR" else shtab.FILE
