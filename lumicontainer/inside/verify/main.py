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
from .local import ONCE, Runner, writable_folder
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
    runner: Runner = Runner(place, os.environ, _folder(), stop=stop)
    if place.launched:
        runner = launched.LaunchedRunner(place, os.environ, runner.folder, stop=stop)
    try:
        if isinstance(runner, launched.LaunchedRunner) and place.ranks > 1:
            runner.gather(checks=seen, seconds=given.wait)
        # After the others have joined, so that they end too if its files cannot be written.
        written = report.Report(
            due, place=place, level=given.level, json_file=given.json, junit_file=given.junit
        )
        run(due, runner, required, written)
        lost = runner.lost()
        if lost and not stop.why:
            written.add(_RANKS, lost)
    finally:
        runner.close()
        if isinstance(runner, launched.LaunchedRunner):
            runner.dismiss()
    written.finish(stop.why)
    if stop.why:
        return INTERRUPTED
    return int(any(each.state in (FAILED, ERROR) for each in written.results.values()))


def _serve(
    place: Place, stop: Stop, *, checks: Sequence[Mapping[str, Any]], seen: str, seconds: float
) -> int:
    """Serve rank 0; print only that the connection to it is lost."""
    runner = launched.LaunchedRunner(place, os.environ, _folder(), stop=stop)
    try:
        connection = launched.find(runner, checks=seen, seconds=seconds)
    except LaunchError as error:
        error.shown = first_of_node(os.environ)
        raise
    if connection is None:
        return INTERRUPTED
    why = launched.serve(runner, connection, checks)
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
    runner: Runner,
    required: Sequence[str],
    written: report.Report,
) -> None:
    """Run checks, those of one process in parallel, and report each outcome.

    Checks on GPUs and measurements run alone. An interrupted check has no outcome.
    """
    due = []
    for check in checks:
        unmet = runner.unmet_need(check)
        if unmet is None:
            due.append(check)
        else:
            written.note(check, Outcome(FAILED if unmet[0] in required else SKIPPED, unmet[1]))

    def one(check: Mapping[str, Any]) -> None:
        if runner.stop.why:
            return
        outcome = held_to_limits(runner.run(check), check)
        if not runner.stop.why:
            written.note(check, outcome)

    # Checks of later layers import the most, so they start first, except those that wait until a
    # server has imported their modules.
    light = [check for check in reversed(due) if _light(check)]
    runner.prepare(light)
    light.sort(key=runner.is_forked)
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
