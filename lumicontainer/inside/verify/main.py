"""``lumi-verify``: select the checks, run them, report their outcomes."""

import argparse
import os
import signal
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from ..errors import INTERRUPTED, UNFIT, LaunchError
from ..image import hidden
from ..launch.cleanenv import check as check_not_cleaned
from ..launch.launchers import first_of_node, is_rank_0
from ..messages import write_message
from ..node.hardware import Node
from . import options, report
from .channel.keys import SET_ONE
from .local import BESIDE, Runner, runs_beside_others, writable_folder
from .outcome import ERROR, FAILED, SKIPPED, Outcome, held_to_limits
from .process import Stop
from .resources import Check, Place

_RANKS = {
    "name": "lumi-verify/ranks",
    "summary": "every rank of the step stays until the last check",
    "level": "quick",
    "hint": "read the messages of srun about these ranks, and exclude a node that loses them; "
    f"ranks with --contain see no folder of each other: {SET_ONE}",
}
"""Added to the report if a rank is lost; most checks do not need every rank."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_AGAIN = 2
"""Seconds in which a second signal is the same one, forwarded by the engine."""


def main(words: Sequence[str]) -> int:
    """Run lumi-verify; return its exit code, which ``--help`` explains."""
    # If SIGCHLD is ignored, each process seems to end with 0; if it is blocked, none seems to end.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    _open_closed_streams()
    try:
        return _run(options.read(words))
    except LaunchError as error:
        shown = is_rank_0(os.environ) if error.shown is None else error.shown
        if shown or (error.local and first_of_node(os.environ)):
            write_message(f"{error}\n")
        return error.code


def _open_closed_streams() -> None:
    """Open /dev/null for closed streams: a pipe to a check must not get their number."""
    for standard in (0, 1, 2):
        try:
            os.fstat(standard)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def _run(arguments: argparse.Namespace) -> int:
    checks = options.every_check()
    due = options.choose_checks(checks, arguments.level, arguments.names)
    required = options.read_required_kinds(arguments.require)
    place = Place(os.environ)
    check_not_cleaned(os.environ, place.launch, Node())
    if arguments.list:
        if place.rank == 0:
            report.write_list(due, arguments.json)
        return 0
    due = _with_first_hint(due, place)
    stop = Stop()
    _listen_for_signals(stop)
    runner: Runner = Runner(place, os.environ, _folder(), stop=stop)
    if place.launched:
        from . import launched  # noqa: PLC0415 - 50 ms, for the cryptography of its channel

        runner = launched.LaunchedRunner(place, os.environ, runner.folder, stop=stop)
        if place.rank:
            return launched.serve_rank_0(runner, checks, seconds=arguments.wait)
    try:
        runner.gather(checks, arguments.wait)
        # After the others have joined, so that they end too if its files cannot be written.
        written = report.Report(
            due,
            place=place,
            level=arguments.level,
            json_file=arguments.json,
            junit_file=arguments.junit,
        )
        run(due, runner, required, written)
        lost = runner.lost()
        if lost and not stop.why:
            written.checks.append(_RANKS)
            written.note(_RANKS, lost)
    finally:
        runner.close()
    written.finish(stop.why)
    if stop.why:
        return INTERRUPTED
    return int(any(each.state in (FAILED, ERROR) for each in written.results.values()))


def _with_first_hint(checks: Sequence[Check], place: Place) -> list[Check]:
    """Warn if others hide packages of the image, and let the checks' hints begin with that."""
    text, hint = hidden.described(os.environ), hidden.first_hint(os.environ)
    if text and place.rank == 0:
        write_message(f"warning: {text}\n")
    return [
        {**each, "hint": f"{hint}; then {each['hint']}" if hint else each["hint"]}
        for each in checks
    ]


def _folder() -> str:
    try:
        return writable_folder(os.environ)
    except OSError as error:
        what, host = "lumi-verify needs a writable folder", os.uname().nodename
        hint = "set TMPDIR to a writable folder, or bind one: singularity exec --bind FOLDER"
        raise LaunchError(what, host, str(error), hint, code=UNFIT, local=True) from None


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
    checks: Sequence[Check], runner: Runner, required: Sequence[str], written: report.Report
) -> None:
    """Run checks, some of them in parallel, and report each outcome.

    An interrupted check has no outcome.
    """
    due = []
    for check in checks:
        unmet = runner.unmet_need(check)
        if unmet is None:
            due.append(check)
        else:
            written.note(check, Outcome(FAILED if unmet[0] in required else SKIPPED, unmet[1]))

    def one(check: Check) -> None:
        if runner.stop.why:
            return
        try:
            outcome = held_to_limits(runner.run(check), check)
        except Exception as error:  # noqa: BLE001 - the other checks still run
            outcome = Outcome(ERROR, f"lumi-verify itself fails: {error!r}")
        if not runner.stop.why:
            written.note(check, outcome)

    # Checks of later layers take the most time, so they start first, except those that wait until
    # a server has imported their modules.
    layers = [check["name"].partition("/")[0] for check in due]
    light = [check for check in due if runs_beside_others(check)]
    light.sort(key=lambda check: -layers.index(check["name"].partition("/")[0]))
    runner.prepare(light)
    light.sort(key=lambda check: len(check.get("imports", ())))
    importing = any(len(check.get("imports", ())) > 1 for check in light)
    lower = partial(os.nice, BESIDE if importing else 0)  # On Linux, of one thread.
    # One a processor, at most 4 because of their memory. Checks of a lower priority leave the
    # processor to servers, whose imports are waited for at the end.
    side_by_side = min(4, len(os.sched_getaffinity(0)))
    with ThreadPoolExecutor(side_by_side, initializer=lower) as pool:
        for done in [pool.submit(one, check) for check in light]:
            done.result()
    for check in due:
        if not runs_beside_others(check):
            one(check)
