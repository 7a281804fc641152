"""A helper program that does not end, or prints without end, is ended and named."""

import asyncio
import io
import itertools
import math
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lumicontainer.errors import DOWNLOAD_FAILED, HOST_UNFIT, STEP_FAILED
from lumicontainer.system import budget, process, process_tree
from lumicontainer.system.budget import Helper
from lumicontainer.system.programs import communicate, idle_limit, logged, write_limit
from lumicontainer.verify import local

from .test_process_tree import alive, mark

pytestmark = pytest.mark.slow

__all__ = ["mark"]

BRIEF, LITTLE = Helper(0.3, 1 << 20, "hint"), Helper(60, 5000, "hint")
WAYS: dict[str, Callable[..., Any]] = {
    "finished": process.run_to_end,
    "captured": process.capture,
    "captured bytes": process.capture_bytes,
    "in a new session": process.in_new_session,
}


@pytest.fixture(params=WAYS.values(), ids=WAYS)
def start(request: pytest.FixtureRequest) -> Iterator[Callable[[str, Helper], Any]]:
    """Return what runs a script of bash within limits."""
    yield lambda script, limits: request.param(["bash", "-c", script], limits=limits)


def wait_until_gone(mark: str) -> None:
    """Wait for processes that got SIGKILL; they end by themselves."""
    while alive(mark):
        time.sleep(0.01)


ENDLESS = {
    "sleeps": ": {mark}; sleep 1000; true",
    "ignores signals": "trap '' TERM INT HUP; : {mark}; while :; do :; done",
    "has closed its output": "exec >&- 2>&-; : {mark}; sleep 1000; true",
    "waits for a child": "bash -c ': {mark}; sleep 1000; true'; true",
}


@pytest.mark.parametrize("script", ENDLESS.values(), ids=ENDLESS)
def test_a_program_that_does_not_end_is_ended_with_its_children(
    start: Callable[..., Any], script: str, mark: str
) -> None:
    with pytest.raises(process.OverLimitError, match=r"bash was ended(?s:.)*within 0\.3 s"):
        start(script.format(mark=mark), BRIEF)
    wait_until_gone(mark)


@pytest.mark.parametrize("way", ["sleeps", "has closed its output", "waits for a child"])
def test_checks_that_do_not_end_are_ended_with_their_children(way: str, mark: str) -> None:
    command = ["bash", "-c", ENDLESS[way].format(mark=mark)]
    with tempfile.TemporaryFile() as report:
        running = logged.run_logged(command, io.StringIO(), result=report, limits=BRIEF)
        with pytest.raises(process.OverLimitError, match=r"within 0\.3 s"):
            asyncio.run(running)
    wait_until_gone(mark)


def test_the_checks_of_an_image_have_a_limit_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "report_of", lambda _: BRIEF)
    check = {"name": "image/x", "timeout_seconds": 1}
    silent = ["bash", "-c", "exec 2>&-; sleep 1000; true"]
    part = asyncio.run(local._run(silent, [check], lambda _: None))
    assert part.why == "it did not end within 0.3 s"
    monkeypatch.undo()
    assert 60 < budget.report_of([60, 30]).seconds < 7200


WRITING = {
    "a file": "{write}; : {mark}; sleep 1000; true",
    "a file of a program that has ended": "bash -c '{write}'; : {mark}; sleep 1000; true",
    "a file that has no name": "exec 3>{file}; rm {file}; {write} >&3; : {mark}; sleep 1000; true",
    "a file, and its output is closed": "exec >&- 2>&-; {write}; : {mark}; sleep 1000; true",
}


@pytest.mark.parametrize("script", WRITING.values(), ids=WRITING)
def test_a_program_that_writes_too_much_is_ended(
    script: str, mark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_limit, "_PAUSE", 0)
    file = tmp_path / "file"
    write = "head -c 3000000 /dev/zero" + ("" if ">&3" in script else f" >{file}")
    command = ["bash", "-c", script.format(write=write, mark=mark, file=file)]
    limits = Helper(60, 5000, "hint", written=1 << 20)
    with pytest.raises(process.OverLimitError, match="it wrote more than 1048576 bytes"):
        process.in_new_session(command, limits=limits)
    wait_until_gone(mark)


def test_a_program_that_prints_to_the_terminal_may_not_write_too_much_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_limit, "_PAUSE", 0)
    script = f"head -c 3000000 /dev/zero >{tmp_path}/file; sleep 1000; true"
    with pytest.raises(process.OverLimitError, match="it wrote more than 1048576 bytes"):
        process.run(["bash", "-c", script], Helper(60, 5000, "hint", written=1 << 20))


def test_a_program_that_only_waits_is_ended_and_its_folder_is_known(
    mark: str, tmp_path: Path
) -> None:
    waiting = ["bash", "-c", f"cd {tmp_path}; : {mark}; sleep 1000; true"]
    with pytest.raises(process.OverLimitError, match=r"did nothing for 0\.01 min") as error:
        process.in_new_session(waiting, limits=Helper(60, 5000, "hint", idle=0.6))
    assert error.value.folder == str(tmp_path)
    wait_until_gone(mark)


WORKING = {
    "computes": "while :; do :; done",
    "writes": "while :; do echo >>{file}; sleep 0.1; done",
    "has children that write": "while :; do bash -c 'echo >{file}; sleep 0.1'; done",
}


@pytest.mark.parametrize("script", WORKING.values(), ids=WORKING)
def test_a_program_that_works_is_not_idle(
    script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = itertools.count(0, 60)
    monkeypatch.setattr(idle_limit, "time", SimpleNamespace(monotonic=lambda: next(times)))
    monkeypatch.setattr(idle_limit, "_WORK", 0)
    command = ["bash", "-c", script.format(file=tmp_path / "file")]
    with subprocess.Popen(command, start_new_session=True) as child:
        limit = idle_limit.IdleLimit(child.pid, 100)
        for _ in range(3):
            before = process_tree.sum_work(child.pid)
            while process_tree.sum_work(child.pid) == before:
                time.sleep(0.01)
            limit.require()
        process_tree.kill(child.pid)
    with pytest.raises(budget.LimitError, match="did nothing for"):
        for _ in range(4):
            limit.require()


def test_the_time_in_which_a_job_was_suspended_does_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    times = iter((0, 0, 10, 5000, 5010, 5060))
    monkeypatch.setattr(idle_limit, "time", SimpleNamespace(monotonic=lambda: next(times)))
    monkeypatch.setattr(process_tree, "sum_work", lambda _: process_tree.Work(7, 7))
    limit = idle_limit.IdleLimit(1, 120)
    for _ in range(3):
        limit.require()
    with pytest.raises(budget.LimitError, match="did nothing for 2 min"):
        limit.require()


HOLDING = {"silent": "sleep 1000", "printing": "while :; do echo; sleep 0.1; done"}


@pytest.mark.parametrize("others", HOLDING.values(), ids=HOLDING)
def test_who_holds_the_output_of_a_program_that_has_ended_is_killed(
    others: str, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(communicate, "DRAIN", 0.2)
    monkeypatch.setattr(communicate, "LONGEST_DRAIN", 0.2)
    script = f"bash -c ': {mark}; {others}' & echo yes; exit 3"
    done = process.in_new_session(["bash", "-c", script], limits=budget.QUESTION)
    assert (done.returncode, done.stdout.split()) == (3, ["yes"])
    wait_until_gone(mark)


def test_what_comes_after_the_end_of_a_program_is_kept() -> None:
    done = process.run_to_end(["bash", "-c", "(sleep 0.5; echo late) & echo early"])
    assert done.stdout == "early\nlate\n"


def test_a_lower_limit_of_the_user_stays(start: Callable[..., Any]) -> None:
    limits = budget.RESOLVE._replace(memory=1 << 40)
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (1 << 39, hard))
    try:
        printed = start("ulimit -S -d", limits)
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
    printed = getattr(printed, "stdout", printed)
    assert int(printed) == 1 << 29


def test_a_program_that_needs_too_much_memory_is_named(start: Callable[..., Any]) -> None:
    limits = budget.RESOLVE._replace(memory=256 << 20)
    script = f"{sys.executable} -c 'bytes(1 << 30)'"
    with pytest.raises(process.OverLimitError, match="it needed more than 256 MiB of memory") as it:
        start(script, limits)
    assert it.value.code == DOWNLOAD_FAILED
    start(f"{sys.executable} -c 'bytes(1 << 20)'", limits)


@pytest.mark.parametrize("script", ["yes", "yes >&2", "yes & yes >&2", "head -c 5001 /dev/zero"])
def test_a_program_that_prints_too_much_is_ended(start: Callable[..., Any], script: str) -> None:
    with pytest.raises(process.OverLimitError, match="it printed more than 5000 bytes"):
        start(script, LITTLE)


def test_a_limit_that_is_reached_is_not_exceeded(start: Callable[..., Any]) -> None:
    printed = start("head -c 5000 /dev/zero", LITTLE)
    printed = getattr(printed, "stdout", printed)
    assert len(printed) == 5000


def test_a_program_of_the_user_has_no_limit() -> None:
    assert process.in_new_session(["seq", "100000"], limits=budget.USER).stdout.endswith("100000\n")


@pytest.mark.parametrize("size", [0, 1, 70_000, 5_000_000])
def test_all_of_the_input_arrives_and_comes_back(size: int) -> None:
    content = b"x" * size
    assert process.capture(["cat"], stdin=content) == content.decode()


def test_input_that_is_not_read_is_no_failure() -> None:
    assert process.run_to_end(["true"], stdin=bytes(5_000_000)).returncode == 0


def test_a_program_that_prints_to_the_terminal_has_a_limit_too(mark: str) -> None:
    with pytest.raises(process.OverLimitError, match=r"within 0\.3 s"):
        process.run(["bash", "-c", f": {mark}; sleep 1000; true"], BRIEF)
    wait_until_gone(mark)


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        (budget.QUESTION, HOST_UNFIT),
        (budget.ENGINE, HOST_UNFIT),
        (budget.FILES, HOST_UNFIT),
        (budget.DOWNLOAD, DOWNLOAD_FAILED),
        (budget.RESOLVE, DOWNLOAD_FAILED),
        (budget.BUILD, STEP_FAILED),
    ],
)
def test_the_exit_code_and_the_hint_come_from_the_cause(limits: Helper, code: int) -> None:
    with pytest.raises(process.OverLimitError) as caught:
        process.run_to_end(["sleep", "1000"], limits=limits._replace(seconds=0.01))
    assert caught.value.code == code
    (problem,) = caught.value.problems
    assert problem.hint == limits.hint
    assert problem.where == "sleep 1000"
    assert math.isfinite(limits.seconds)


def test_a_report_without_end_is_ended(mark: str) -> None:
    """Reports are kept apart from the log, and read at once."""
    script = f": {mark}; head -c 9000 /dev/zero; sleep 1000; true"
    command = ["bash", "-c", script]
    with tempfile.TemporaryFile() as report:
        running = logged.run_logged(command, io.StringIO(), result=report, limits=LITTLE)
        with pytest.raises(process.OverLimitError, match="it printed more than 5000 bytes"):
            asyncio.run(running)
        assert report.tell() <= LITTLE.most
    wait_until_gone(mark)


def test_a_report_is_kept_byte_for_byte() -> None:
    command = ["bash", "-c", r"printf '\xff\0\r\n\e[2J'; echo log >&2"]
    log = io.StringIO()
    with tempfile.TemporaryFile() as report:
        assert asyncio.run(logged.run_logged(command, log, result=report)) == 0
        report.seek(0)
        assert (report.read(), log.getvalue()) == (b"\xff\0\r\n\x1b[2J", "log\n")
