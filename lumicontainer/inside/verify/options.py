"""What lumi-verify's command line asks for, and which of an image's checks that means."""

from __future__ import annotations

import argparse
import difflib
import fnmatch
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from .. import __version__
from ..checking import home, record
from ..errors import MISUSED, LaunchError
from .resources import NEEDS

LEVELS = ("quick", "full", "perf")
CHECKS = "checks.json"
WAIT = 120
"""Seconds in which all ranks are there: nodes read an image of some GB at the same time."""


class _Parser(argparse.ArgumentParser):
    """Raise what is wrong: of many ranks one tells it."""

    def error(self, message: str) -> NoReturn:
        raise LaunchError(message, where="lumi-verify", hint="lumi-verify --help", code=MISUSED)


def read(words: Sequence[str]) -> argparse.Namespace:
    """Read the command line; raise LaunchError where it is wrong."""
    parser = _Parser(
        prog="lumi-verify",
        description="Prove that this image works: run the checks that it brings with it.",
        epilog="Under srun every task runs lumi-verify, and rank 0 reports. Exit codes: "
        "0 every check that could be made holds, 1 one does not, 2 wrong usage, 3 the machine is "
        "not fit, 130 interrupted.",
        allow_abbrev=False,
    )
    add_choice(parser)
    add = parser.add_argument
    add("--json", metavar="FILE", help="write the results, or the list, as JSON; - for stdout")
    add("--junit", metavar="FILE", help="write the results as JUnit's XML")
    add(
        "--wait",
        metavar="SECONDS",
        type=_seconds,
        default=WAIT,
        help="how long ranks may take to come (default: %(default)s)",
    )
    add("--version", action="version", version=f"lumi-verify {__version__}")
    return parser.parse_args(words)


def add_choice(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose checks, which ``lumicontainer verify`` has too."""
    add = parser.add_argument
    add("--level", choices=LEVELS, default="quick", help="how much to run (default: %(default)s)")
    add(
        "-k",
        metavar="NAME",
        action="append",
        default=[],
        dest="names",
        help="only checks whose name holds this, or matches it with * and ?; of any level",
    )
    add(
        "--require",
        metavar="WHAT[,WHAT]",
        default="",
        help=f"what must not lack: {', '.join(NEEDS)}; a check that is skipped for it fails",
    )
    add("--list", action="store_true", help="list the checks, and run none")


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < 1e6:
        raise argparse.ArgumentTypeError("a number of seconds is wanted")
    return seconds


def required_kinds(text: str) -> list[str]:
    """Return what ``--require`` names; raise LaunchError where there is no such thing."""
    kinds = [each for each in text.split(",") if each]
    unknown = [each for each in kinds if each not in NEEDS]
    if unknown:
        what = f"--require knows no '{unknown[0]}'"
        raise LaunchError(what, why=f"it takes {', '.join(NEEDS)}", hint="name one of these")
    return kinds


def every_check() -> list[Mapping[str, Any]]:
    """Return what the image's checks say; raise LaunchError where it does not tell."""
    where = os.path.join(home(), CHECKS)
    try:
        checks: list[Mapping[str, Any]] = record(CHECKS)
    except (OSError, ValueError) as error:
        why = f"it cannot be read: {error}"
    else:
        if isinstance(checks, list):
            return checks
        why = "there is no such file"
    raise LaunchError(
        "this image does not tell which checks it has",
        where=where,
        why=why,
        hint="build the image again; whatever lies over that folder hides what it holds",
    )


def fingerprint(checks: Sequence[Mapping[str, Any]]) -> str:
    """Return what tells an image's checks from those of another."""
    return hashlib.sha256(json.dumps(checks, sort_keys=True).encode()).hexdigest()


def chosen(
    checks: Sequence[Mapping[str, Any]], level: str, names: Sequence[str]
) -> list[Mapping[str, Any]]:
    """Return the checks to run; raise LaunchError where a name is none's.

    The whole name of a check means it alone, and not those whose names hold it.
    """
    if not names:
        upto = LEVELS[: LEVELS.index(level) + 1]
        return [each for each in checks if each["level"] in upto]
    every = [each["name"] for each in checks]
    missing = [name for name in names if not any(_named(each, name, every) for each in every)]
    if missing:
        near = difflib.get_close_matches(missing[0], every, 3, 0.5)
        told = "lumi-verify --level perf --list names them"
        raise LaunchError(
            f"no check is called '{missing[0]}'",
            where="-k",
            why=f"the image has {len(checks)} checks",
            hint=f"did you mean {' or '.join(near)}? {told}" if near else told,
            code=MISUSED,
        )
    return [each for each in checks if any(_named(each["name"], name, every) for name in names)]


def _named(check: str, name: str, every: Sequence[str]) -> bool:
    """Tell whether a check is meant; a name that is one check's own means that one alone."""
    if name in every:
        return check == name
    wild = any(sign in name for sign in "*?[")
    return fnmatch.fnmatch(check, name) if wild else name in check
