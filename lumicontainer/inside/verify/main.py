"""``lumi-verify``: choose the checks, run them, tell what came of them."""

from __future__ import annotations

import argparse
import fnmatch
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from .. import __version__
from ..checking import record
from ..errors import MISUSED, LaunchError
from . import report
from .outcome import ERROR, FAILED, SKIPPED, Outcome
from .place import NEEDS, Place
from .team import ONCE, Team

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

LEVELS = ("quick", "full", "perf")


def main(words: Sequence[str]) -> int:
    """Run lumi-verify; return 1 where a check does not hold, 2 where the command line is wrong."""
    try:
        return _run(_options(words))
    except LaunchError as error:
        sys.stderr.write(f"{error}\n")
        return error.code


def _options(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="lumi-verify",
        description="Prove that this image works: run the checks that it brings with it.",
        epilog="exit codes: 0 every check that could be made holds, 1 one does not, 2 wrong usage",
        allow_abbrev=False,
    )
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
    add("--json", metavar="FILE", help="write the results as JSON; - for stdout")
    add("--junit", metavar="FILE", help="write the results as JUnit's XML")
    add("--list", action="store_true", help="list the checks, and run none")
    add("--version", action="version", version=f"lumi-verify {__version__}")
    return parser.parse_args(words)


def _run(options: argparse.Namespace) -> int:
    checks = chosen(record("checks.json") or [], options.level, options.names)
    required = required_kinds(options.require)
    if options.list:
        sys.stdout.write(report.listed(checks))
        return 0
    place = Place(os.environ)
    begun = time.time()
    results = run(checks, Team(place, os.environ), required)
    result = report.result(checks, results, place=place, level=options.level, begun=begun)
    report.write(result, json_file=options.json, junit_file=options.junit)
    return int(any(each.state in (FAILED, ERROR) for each in results.values()))


def required_kinds(text: str) -> list[str]:
    """Return what ``--require`` names; raise LaunchError where there is no such thing."""
    kinds = [each for each in text.split(",") if each]
    unknown = [each for each in kinds if each not in NEEDS]
    if unknown:
        what = f"--require knows no '{unknown[0]}'"
        raise LaunchError(what, why=f"it takes {', '.join(NEEDS)}", mend="name one of these")
    return kinds


def chosen(
    checks: Sequence[Mapping[str, Any]], level: str, names: Sequence[str]
) -> list[Mapping[str, Any]]:
    """Return the checks to run; raise LaunchError where a name is none's."""
    if not names:
        upto = LEVELS[: LEVELS.index(level) + 1]
        return [each for each in checks if each["level"] in upto]
    missing = [name for name in names if not any(_named(each, name) for each in checks)]
    if missing:
        raise LaunchError(
            f"no check is called '{missing[0]}'",
            where="-k",
            why=f"the image has {len(checks)} checks",
            mend="lumi-verify --level perf --list names them",
            code=MISUSED,
        )
    return [each for each in checks if any(_named(each, name) for name in names)]


def _named(check: Mapping[str, Any], name: str) -> bool:
    wild = any(sign in name for sign in "*?[")
    return fnmatch.fnmatch(check["name"], name) if wild else name in check["name"]


def run(
    checks: Sequence[Mapping[str, Any]], team: Team, required: Sequence[str]
) -> dict[str, Outcome]:
    """Run checks, those of one process side by side; return what came of each by its name.

    What computes on GPUs, or measures, runs alone.
    """
    results: dict[str, Outcome] = {}
    due = []
    for check in checks:
        lack = team.place.lacking(check)
        if lack is None:
            due.append(check)
        else:
            state = FAILED if lack[0] in required else SKIPPED
            results[check["name"]] = _noted(check, Outcome(state, lack[1]), len(checks))
    light = [check for check in due if _light(check)]
    with ThreadPoolExecutor(side_by_side()) as pool:
        for check, came in zip(light, pool.map(team.run, light)):
            results[check["name"]] = _noted(check, came, len(checks))
    for check in due:
        if not _light(check):
            results[check["name"]] = _noted(check, team.run(check), len(checks))
    return results


def _light(check: Mapping[str, Any]) -> bool:
    """Tell whether a check may run beside others."""
    alone = check["level"] == "perf" or check.get("needs", {}).get("gpus")
    return check.get("runs", ONCE) == ONCE and not alone


def side_by_side() -> int:
    """Return how many checks run at the same time: one a processor, and few, for their memory."""
    return min(4, len(os.sched_getaffinity(0)))


def _noted(check: Mapping[str, Any], came: Outcome, total: int) -> Outcome:
    """Tell of one check that is done; return what came of it."""
    del total
    sys.stderr.write(report.line(check, came))
    sys.stderr.flush()
    return came
