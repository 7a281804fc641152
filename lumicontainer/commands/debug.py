"""``lumicontainer debug``: a shell in the state that a failed build left."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lumicontainer.build.cache.store import LAYER
from lumicontainer.build.failures.failure import OPENER
from lumicontainer.build.workspace import FAILED, temporary_root, workspace
from lumicontainer.commands import context
from lumicontainer.errors import OK, HostError, InputError, Problem
from lumicontainer.host.machine import clean_environment
from lumicontainer.system import flock, process, units


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    parser.add_argument(
        "recipe", metavar="RECIPE", nargs="?", help="default: the build that failed last"
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--list", action="store_true", help="list the states that are kept")
    what.add_argument("--clean", action="store_true", help="remove the states that are kept")
    context.add_json(parser)


@dataclass(frozen=True)
class State:
    """Hold what is known of a state that a failed build left."""

    folder: Path
    recipe: str
    step: str
    time: float
    log: str

    def size(self) -> int:
        """Return the bytes that its files take, links and sparse files counted as they are."""
        total = 0
        for folder, _, names in os.walk(self.folder):
            total += sum((Path(folder) / name).lstat().st_blocks for name in names)
        return total * 512

    def lacks(self) -> list[str]:
        """Return the layers that its shell needs and the cache has no more."""
        text = (self.folder / OPENER).read_text()
        files = [word.removesuffix(":ro") for word in shlex.split(text, comments=True)]
        return [file for file in files if Path(file).name == LAYER and not Path(file).exists()]


def run(arguments: argparse.Namespace) -> int:
    """Open the shell, or tell of the states, or remove them."""
    states = _states(arguments.recipe)
    if arguments.list:
        return _list(states, as_json=arguments.json)
    if arguments.json:
        raise InputError(Problem("debug tells a list alone as JSON", hint="add --list"))
    if arguments.clean:
        return _clean(states)
    if not states:
        raise _none(arguments.recipe)
    _open(states[0])
    return OK


def _states(recipe: str | None) -> list[State]:
    """Return the states of a recipe, or of all, the newest first."""
    found = []
    for note in temporary_root().glob(f"[!.]*/{FAILED}"):
        try:
            told = json.loads(note.read_bytes())
            state = State(note.parent, told["recipe"], told["step"], told["time"], told["log"])
        except (OSError, ValueError, KeyError, TypeError):
            continue  # It is being removed at this moment.
        if recipe in (None, state.recipe):
            found.append(state)
    return sorted(found, key=lambda state: state.time, reverse=True)


def _list(states: Sequence[State], *, as_json: bool) -> int:
    if as_json:
        context.print_json([_about(state) for state in states])
        return OK
    now = time.time()
    context.print_table(
        [
            (s.recipe, s.step, units.age(now - s.time), units.size(s.size()), str(s.folder))
            for s in states
        ]
    )
    if not states:
        sys.stdout.write("no state of a failed build is kept\n")
    return OK


def _about(state: State) -> dict[str, Any]:
    about = {"recipe": state.recipe, "step": state.step, "time": state.time, "log": state.log}
    return {**about, "bytes": state.size(), "path": str(state.folder)}


def _clean(states: Sequence[State]) -> int:
    for recipe in {state.recipe for state in states}:
        with workspace(recipe):
            pass  # A build removes, as it begins, what earlier ones of its recipe left.
    for state in states:
        left = state.folder.exists()
        told = "in use, stays" if left else "removed"
        sys.stdout.write(f"{told}: {state.folder}\n")
    if not states:
        sys.stdout.write("no state of a failed build is kept\n")
    return OK


def _none(recipe: str | None) -> InputError:
    of = f" of '{recipe}'" if recipe else ""
    return InputError(
        Problem(
            f"no state of a failed build{of} is kept",
            str(temporary_root()),
            why="a build keeps its state when a step fails, until the next build of its recipe",
            hint=f"build it again, until it fails: lumicontainer build {recipe or 'RECIPE'}",
        )
    )


def _open(state: State) -> None:
    """Become the shell; it holds the lock of the state, so that no build removes it meanwhile."""
    if missing := state.lacks():
        raise HostError(
            Problem(
                f"layers below the step '{state.step}' were removed from the cache",
                "\n".join(missing),
                hint="build it again, until it fails: lumicontainer build " + state.recipe,
            )
        )
    lock = flock.exclusive(state.folder / "lock")
    if lock is None:
        holder = flock.holder(state.folder / "lock")
        raise HostError(
            Problem("the state is in use", str(state.folder), holder, "leave the other shell first")
        )
    os.set_inheritable(lock, True)
    process.become([str(state.folder / OPENER)], clean_environment())
