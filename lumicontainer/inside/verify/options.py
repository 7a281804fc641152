"""Read lumi-verify's command line, and select checks."""

import argparse
import difflib
import fnmatch
import os
from collections.abc import Sequence
from typing import NoReturn

from .. import __version__
from ..checking import home, record
from ..errors import LaunchError
from .resources import NEEDS, Check

LEVELS = ("quick", "full", "perf")
CHECKS = "checks.json"
WAIT = 120  # seconds for all ranks to start: nodes read an image of some GB at the same time


class _Parser(argparse.ArgumentParser):
    """Raise errors, so that only one of many ranks prints them."""

    def error(self, message: str) -> NoReturn:
        raise LaunchError(message, "lumi-verify", hint="lumi-verify --help")


def read(words: Sequence[str]) -> argparse.Namespace:
    """Read the command line; raise LaunchError if it is invalid."""
    parser = _Parser(
        prog="lumi-verify",
        description="Run the checks in this image, which prove that it works.",
        epilog="Under srun every task runs lumi-verify, and rank 0 reports. Exit codes: "
        "0 no check failed, 1 a check failed, 2 invalid input, 3 the machine is not fit, "
        "130 interrupted.",
        allow_abbrev=False,
    )
    add_choice(parser)
    add = parser.add_argument
    add("--json", metavar="FILE", help="write the results, or the list, as JSON; - for stdout")
    add("--junit", metavar="FILE", help="write the results as JUnit XML")
    summary = "time limit for all ranks to start (default: %(default)s)"
    add("--wait", metavar="SECONDS", type=_seconds, default=WAIT, help=summary)
    add("--version", action="version", version=f"lumi-verify {__version__}")
    return parser.parse_args(words)


def add_choice(parser: argparse.ArgumentParser) -> None:
    """Add the options that select checks; ``lumicontainer verify`` has them too."""
    add = parser.add_argument
    summary = "the checks to run (default: %(default)s)"
    add("--level", choices=LEVELS, default="quick", help=summary)
    summary = "only checks, of any level, whose name contains NAME or matches it with * and ?"
    add("-k", metavar="NAME", action="append", default=[], dest="names", help=summary)
    summary = f"fail checks that lack one of these, instead of skipping them: {', '.join(NEEDS)}"
    add("--require", metavar="WHAT[,WHAT]", default="", help=summary)
    add("--list", action="store_true", help="list the checks; run none")


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0
    if not 0 < seconds < 1e6:
        raise argparse.ArgumentTypeError(f"expected a number of seconds, got '{text}'")
    return seconds


def read_required_kinds(text: str) -> list[str]:
    """Return the kinds in ``--require``; raise LaunchError if one is unknown."""
    kinds = [each for each in text.split(",") if each]
    unknown = [each for each in kinds if each not in NEEDS]
    if unknown:
        what = f"invalid --require '{unknown[0]}'"
        raise LaunchError(what, why=f"known are {', '.join(NEEDS)}", hint="use one of these")
    return kinds


def every_check() -> list[Check]:
    """Return the rows of checks.json; raise LaunchError if it cannot be read."""
    try:
        checks: list[Check] = record(CHECKS)
    except (OSError, ValueError) as error:
        why = f"it cannot be read: {error}"
    else:
        if isinstance(checks, list):
            return checks
        why = "there is no such file"
    where = os.path.join(home(), CHECKS)
    hint = "rebuild the image, and bind nothing over this folder"
    raise LaunchError("cannot read the list of the image's checks", where, why, hint)


def choose_checks(checks: Sequence[Check], level: str, names: Sequence[str]) -> list[Check]:
    """Return the checks to run; raise LaunchError if a name matches none, or for another level.

    The full name of a check selects only this one, not others that contain it.
    """
    if level not in LEVELS:
        raise LaunchError(f"invalid level '{level}'", hint=f"choose one of: {', '.join(LEVELS)}")
    if not names:
        upto = LEVELS[: LEVELS.index(level) + 1]
        return [each for each in checks if each["level"] in upto]
    every = [each["name"] for each in checks]
    missing = [name for name in names if not any(_named(each, name, every) for each in every)]
    if missing:
        near = difflib.get_close_matches(missing[0], every, 3, 0.5)
        names_all = "lumi-verify --level perf --list"
        why = f"the image has {len(checks)} checks"
        hint = f"did you mean {' or '.join(near)}? {names_all}" if near else names_all
        raise LaunchError(f"check '{missing[0]}' not found", "-k", why, hint)
    return [each for each in checks if any(_named(each["name"], name, every) for name in names)]


def _named(check: str, name: str, every: Sequence[str]) -> bool:
    if name in every:
        return check == name
    wild = any(sign in name for sign in "*?[")
    return fnmatch.fnmatch(check, name) if wild else name in check
