"""Write the completion script of a shell, from the parser of the command line."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import shtab

from lumicontainer.frontends.completion import KINDS

SHELLS = ("bash", "zsh")
VERB = "verb"
"""The kind of names that are those of verbs."""
_FILES = ("FILE", "KEY", "A", "B", "JOB|FOLDER", "-- COMMAND", "-- PROGRAM")
"""Options whose values can be names of files, but are read as text."""
_SCRIPTS = Path(__file__).parents[1] / "host/scripts"


def completion_script(parser: argparse.ArgumentParser, shell: str) -> str:
    """Return a script that completes what a parser reads."""
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
