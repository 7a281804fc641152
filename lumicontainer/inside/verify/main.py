"""``lumi-verify``: select the checks, run them, report their outcomes."""

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
from ..node.hardware import Node
from . import launched, options, report
from .local import ONCE, Team, writable_folder
from .outcome import ERROR, FAILED, SKIPPED, Outcome, held_to_limits
from .process import Stop
from .resources import Place

INTERRUPTED = 130
_RANKS = {
    "name": "lumi-verify/ranks",
    "summary": "every rank of the step stays until the last check",
    "level": "quick",
    "hint": "read the messages of srun about these ranks, and exclude a node that loses them",
}
"""Added to the report if a rank is lost; most checks do not need every rank."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_AGAIN = 2
"""Seconds in which a second signal is the same one, forwarded by the engine."""


def main(words: Sequence[str]) -> int:
    """Run lumi-verify; return its exit code, which ``--help`` explains."""
    # Characters that the terminal's encoding does not have are escaped.
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
    check_not_cleaned(os.environ, place.launch, Node())
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
        # After the others have joined, so that they end too if its files cannot be written.
        written = report.Report(
            due, place=place, level=given.level, json_file=given.json, junit_file=given.junit
        )
        run(due, team, required, written)
        lost = team.lost()
        if lost and not stop.why:
            written.add(_RANKS, lost)
    finally:
        if isinstance(team, launched.Crew):
            team.dismiss()
    written.finish(stop.why)
    if stop.why:
        return INTERRUPTED
    return int(any(each.state in (FAILED, ERROR) for each in written.results.values()))


def _serve(
    place: Place, stop: Stop, *, checks: Sequence[Mapping[str, Any]], seen: str, seconds: float
) -> int:
    """Serve rank 0; print only that the connection to it is lost."""
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
        sys.stderr.write(f"error: {why} (reported by rank {place.rank} on {place.host})\n")
    return INTERRUPTED if why else 0


def _folder() -> str:
    try:
        return writable_folder(os.environ)
    except OSError as error:
        raise LaunchError(
            "lumi-verify needs a writable folder",
            where=os.uname().nodename,
            why=str(error),
            hint="set TMPDIR to a writable folder, or bind one: singularity exec --bind FOLDER",
            code=UNFIT,
            local=True,
        ) from None


def _listen_for_signals(stop: Stop) -> None:
    first = 0.0

    def handle(number: int, _: object) -> None:
        nonlocal first
        if stop.why and time.monotonic() - first > _AGAIN:
            # The reapers end the checks.
            os._exit(INTERRUPTED)
        if not stop.why:
            first = time.monotonic()
            stop.why = f"it was interrupted by {signal.Signals(number).name}"

    for each in _SIGNALS:
        # nohup ignores SIGHUP.
        if signal.getsignal(each) is not signal.SIG_IGN:
            signal.signal(each, handle)


def run(
    checks: Sequence[Mapping[str, Any]],
    team: Team,
    required: Sequence[str],
    written: report.Report,
) -> None:
    """Run checks, those of one process in parallel, and report each outcome.

    Checks on GPUs and measurements run alone. An interrupted check has no outcome.
    """
    due = []
    for check in checks:
        lack = team.lacking(check)
        if lack is None:
            due.append(check)
        else:
            written.note(check, Outcome(FAILED if lack[0] in required else SKIPPED, lack[1]))

    def one(check: Mapping[str, Any]) -> None:
        if team.stop.why:
            return
        came = held_to_limits(team.run(check), check)
        if not team.stop.why:
            written.note(check, came)

    # Checks of later layers import the most, so they start first.
    light = [check for check in reversed(due) if _light(check)]
    with ThreadPoolExecutor(side_by_side()) as pool:
        for done in [pool.submit(one, check) for check in light]:
            done.result()
    for check in due:
        if not _light(check):
            one(check)


def _light(check: Mapping[str, Any]) -> bool:
    alone = check["level"] == "perf" or check.get("needs", {}).get("gpus")
    return check.get("runs", ONCE) == ONCE and not alone


def side_by_side() -> int:
    """Return the number of parallel checks: one a processor, at most 4 because of their memory."""
    return min(4, len(os.sched_getaffinity(0)))
