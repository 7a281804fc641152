"""``lumicontainer debug``: open a shell in the state that a failed build left."""

import argparse
import json
import os
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from lumicontainer.cache.store import LAYER
from lumicontainer.commands import context
from lumicontainer.errors import OK, HostError, InputError, Problem
from lumicontainer.host.machine import clean_environment
from lumicontainer.sandbox.failures.failure import OPENER
from lumicontainer.sandbox.workspace import FAILED, workspace
from lumicontainer.system import flock, process, units
from lumicontainer.system.files.temporary import recipe_of, temporary_root
from lumicontainer.system.terminal.output import print_json, print_table

_NOTED = ("recipe", "step", "time", "log")
_NONE = "no state of a failed build is kept"


class FailedBuild(NamedTuple):
    """Hold what is known of a failed build that is kept."""

    folder: Path
    recipe: str
    step: str
    time: float
    log: str

    def size(self) -> int:
        """Return the bytes that it takes on the disk; 0 if a build is removing it."""
        try:
            return sum(path.lstat().st_blocks for path in self.folder.rglob("*")) * 512
        except FileNotFoundError:
            return 0

    def missing_layers(self) -> list[str]:
        """Return the layers that its shell requires and the cache no longer has."""
        text = (self.folder / OPENER).read_text()
        files = [word.removesuffix(":ro") for word in shlex.split(text, comments=True)]
        return [file for file in files if Path(file).name == LAYER and not Path(file).exists()]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    summary = "default: the build that failed last"
    parser.add_argument("recipe", metavar="RECIPE", nargs="?", help=summary)
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--list", action="store_true", help="list the states that are kept")
    group.add_argument("--clean", action="store_true", help="remove the states that are kept")
    context.add_options(parser, "--json")


def run(arguments: argparse.Namespace) -> int:
    """Open the shell, or list the states, or remove them."""
    states = _states(arguments.recipe)
    if arguments.list:
        _list(states, as_json=arguments.json)
    elif arguments.json:
        raise InputError(Problem("debug prints JSON only with --list", hint="add --list"))
    elif arguments.clean:
        _clean(states)
    elif states:
        _open(states[0])
    else:
        recipe = arguments.recipe or "RECIPE"
        why = "a build keeps its state when a step fails, until the next build of its recipe"
        hint = f"build until a step fails: lumicontainer build {recipe}"
        what = f"{_NONE} for '{recipe}'" if arguments.recipe else _NONE
        raise InputError(Problem(what, str(temporary_root()), why, hint))
    return OK


def _states(recipe: str | None) -> list[FailedBuild]:
    found = []
    for note in temporary_root().glob(f"[!.]*/{FAILED}"):
        try:
            data = json.loads(note.read_bytes())
            state = FailedBuild(note.parent, *(data[name] for name in _NOTED))
        except (OSError, ValueError, KeyError, TypeError):
            continue  # Another process is removing it.
        if recipe in (None, state.recipe):
            found.append(state)
    return sorted(found, key=lambda state: state.time, reverse=True)


def _list(states: Sequence[FailedBuild], *, as_json: bool) -> None:
    if as_json:
        rows = [{name: getattr(each, name) for name in _NOTED} for each in states]
        for row, each in zip(rows, states, strict=True):
            row |= {"bytes": each.size(), "path": str(each.folder)}
        print_json(rows)
        return
    now = time.time()
    print_table(
        [
            (s.recipe, s.step, units.age(now - s.time), units.size(s.size()), str(s.folder))
            for s in states
        ]
    )
    if not states:
        sys.stdout.write(f"{_NONE}\n")


def _clean(states: Sequence[FailedBuild]) -> None:
    for recipe in {recipe_of(state.folder) for state in states}:
        with workspace(recipe):
            pass  # A build first removes what earlier builds of its recipe left.
    for state in states:
        result = "in use, not removed" if state.folder.exists() else "removed"
        sys.stdout.write(f"{result}: {state.folder}\n")
    if not states:
        sys.stdout.write(f"{_NONE}\n")


def _open(state: FailedBuild) -> None:
    """Become the shell; it keeps the lock of the state, so that no build removes it."""
    if missing := state.missing_layers():
        what = f"layers below the step '{state.step}' were removed from the cache"
        hint = f"build until the step fails: lumicontainer build {state.recipe}"
        raise HostError(Problem(what, "\n".join(missing), hint=hint))
    path = state.folder / "lock"
    lock = flock.exclusive(path)
    if lock is None:
        hint = "leave the other shell first"
        raise HostError(Problem("the state is in use", str(path.parent), flock.holder(path), hint))
    os.set_inheritable(lock, True)
    process.become([str(state.folder / OPENER)], clean_environment())
