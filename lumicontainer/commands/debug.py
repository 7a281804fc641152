"""``lumicontainer debug``: open a shell in the state that a failed build left."""

import argparse
import os
import sys
import time
from collections.abc import Sequence

from lumicontainer.api.failed_builds import (
    NONE_KEPT,
    FailedBuild,
    list_failed_builds,
    lock_state,
    remove_failed_builds,
    require_failed_build,
)
from lumicontainer.commands import context
from lumicontainer.errors import InputError, Problem
from lumicontainer.host.machine import clean_environment
from lumicontainer.sandbox.failures.failure import OPENER
from lumicontainer.system import process, units
from lumicontainer.system.terminal.output import print_json, print_table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    summary = "the recipe of the failed build; default: the last one"
    parser.add_argument("recipe", metavar="RECIPE", nargs="?", help=summary)
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--list", action="store_true", help="list the states that are kept")
    group.add_argument("--clean", action="store_true", help="remove the states that are kept")
    context.add_options(parser, "--json")


def run(arguments: argparse.Namespace) -> None:
    """Open the shell, or list the states, or remove them."""
    if arguments.list:
        _list(list_failed_builds(arguments.recipe), as_json=arguments.json)
    elif arguments.json:
        raise InputError(Problem("debug prints JSON only with --list", hint="add --list"))
    elif arguments.clean:
        _clean(list_failed_builds(arguments.recipe))
    else:
        _open(require_failed_build(arguments.recipe))


def _list(states: Sequence[FailedBuild], *, as_json: bool) -> None:
    if as_json:
        print_json([each.as_data() for each in states])
        return
    now = time.time()
    print_table(
        [
            (s.recipe, s.step, units.age(now - s.time), units.size(s.size()), str(s.folder))
            for s in states
        ]
    )
    if not states:
        sys.stdout.write(f"{NONE_KEPT}\n")


def _clean(states: Sequence[FailedBuild]) -> None:
    in_use = remove_failed_builds(states)
    for state in states:
        result = "in use, not removed" if state in in_use else "removed"
        sys.stdout.write(f"{result}: {state.folder}\n")
    if not states:
        sys.stdout.write(f"{NONE_KEPT}\n")


def _open(state: FailedBuild) -> None:
    """Become the shell, which keeps the lock of the state."""
    os.set_inheritable(lock_state(state), True)
    process.become([str(state.folder / OPENER)], clean_environment())
