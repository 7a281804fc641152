"""``lumi-verify``: choose the checks, run them, tell what came of them."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ..errors import UNFIT, LaunchError
from ..launch.cleanenv import check as check_not_cleaned
from ..launch.launchers import first_of_node, is_rank_0
from . import launched, options, report
from .local import ONCE, Team, writable_folder
from .outcome import ERROR, FAILED, SKIPPED, Outcome, held_to_limits
from .process import Stop
from .resources import Place

INTERRUPTED = 130
_RANKS = {
    "name": "lumi-verify/ranks",
    "summary": "every rank of the step is here from the first check to the last",
    "level": "quick",
    "hint": "see what srun says of these ranks, and take a node that loses them out of the job",
}
"""Stands in the report beside the checks where a rank is lost: most checks do without it."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_AGAIN = 2
"""Seconds in which a signal that comes again is the same one, handed on by the engine."""


def main(words: Sequence[str]) -> int:
    """Run lumi-verify; return its exit code, which ``--help`` explains."""
    # What checks write is told as it is; a terminal that has no such letters gets their codes.
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        return _run(options.read(words))
    except LaunchError as error:
        shown = is_rank_0(os.environ) if error.shown is None else error.shown
        if shown or (error.local and first_of_node(os.environ)):
            sys.stderr.write(f"{error}\n")
        return error.code


def _run(given: argparse.Namespace) -> int:
    checks = options.every_check()
    due = options.chosen(checks, given.level, given.names)
    required = options.required_kinds(given.require)
    place = Place(os.environ)
    check_not_cleaned(os.environ, place.launch)
    if given.list:
        if place.rank == 0:
            report.write_list(due, given.json)
        return 0
    stop = Stop()
    _listen_for_signals(stop)
    seen = options.fingerprint(checks)
    if place.rank:
        return _serve(place, stop, checks=checks, seen=seen, seconds=given.wait)
    team: Team = Team(place, os.environ, _folder(), stop=stop)
    if place.launched:
        team = launched.Crew(place, os.environ, team.folder, stop=stop)
    try:
        if isinstance(team, launched.Crew) and place.ranks > 1:
            team.gather(checks=seen, seconds=given.wait)
        # Once the others are here, so that they are let go where its files cannot be written.
        told = report.Report(
            due, place=place, level=given.level, json_file=given.json, junit_file=given.junit
        )
        run(due, team, required, told)
        lost = team.lost()
        if lost and not stop.why:
            told.add(_RANKS, lost)
    finally:
        if isinstance(team, launched.Crew):
            team.dismiss()
    told.finish(stop.why)
    if stop.why:
        return INTERRUPTED
    return int(any(each.state in (FAILED, ERROR) for each in told.results.values()))


def _serve(
    place: Place, stop: Stop, *, checks: Sequence[Mapping[str, Any]], seen: str, seconds: float
) -> int:
    """Be a rank that rank 0 tells what to run; say nothing but that it is gone."""
    team = launched.Crew(place, os.environ, _folder(), stop=stop)
    try:
        door = launched.find(team, checks=seen, seconds=seconds)
    except LaunchError as error:
        error.shown = first_of_node(os.environ)
        raise
    if door is None:
        return INTERRUPTED
    why = launched.serve(team, door, checks)
    if why and why.startswith("rank 0") and first_of_node(os.environ):
        sys.stderr.write(f"error: {why} (told by rank {place.rank} on {place.host})\n")
    return INTERRUPTED if why else 0


def _folder() -> str:
    try:
        return writable_folder(os.environ)
    except OSError as error:
        raise LaunchError(
            "there is no folder that lumi-verify could write to",
            where=os.uname().nodename,
            why=str(error),
            hint="set TMPDIR to a folder with room, or bind one: singularity exec --bind FOLDER",
            code=UNFIT,
            local=True,
        ) from None


def _listen_for_signals(stop: Stop) -> None:
    first = 0.0

    def handle(number: int, _: object) -> None:
        nonlocal first
        if stop.why and time.monotonic() - first > _AGAIN:
            # The guards end what runs.
            os._exit(INTERRUPTED)
        if not stop.why:
            first = time.monotonic()
            stop.why = f"it was interrupted by {signal.Signals(number).name}"

    for each in _SIGNALS:
        # nohup has it ignored.
        if signal.getsignal(each) is not signal.SIG_IGN:
            signal.signal(each, handle)


def run(
    checks: Sequence[Mapping[str, Any]],
    team: Team,
    required: Sequence[str],
    told: report.Report,
) -> None:
    """Run checks, those of one process side by side; tell what came of each.

    What computes on GPUs, or measures, runs alone. What was interrupted has no outcome.
    """
    due = []
    for check in checks:
        lack = team.lacking(check)
        if lack is None:
            due.append(check)
        else:
            told.note(check, Outcome(FAILED if lack[0] in required else SKIPPED, lack[1]))

    def one(check: Mapping[str, Any]) -> None:
        if team.stop.why:
            return
        came = held_to_limits(team.run(check), check)
        if not team.stop.why:
            told.note(check, came)

    # The checks of later layers import the most: begun first, none is waited for at the end.
    light = [check for check in reversed(due) if _light(check)]
    with ThreadPoolExecutor(side_by_side()) as pool:
        for done in [pool.submit(one, check) for check in light]:
            done.result()
    for check in due:
        if not _light(check):
            one(check)


def _light(check: Mapping[str, Any]) -> bool:
    """Tell whether a check may run beside others."""
    alone = check["level"] == "perf" or check.get("needs", {}).get("gpus")
    return check.get("runs", ONCE) == ONCE and not alone


def side_by_side() -> int:
    """Return how many checks run at the same time: one a processor, and few, for their memory."""
    return min(4, len(os.sched_getaffinity(0)))
