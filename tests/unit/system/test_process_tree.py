"""A program that is cancelled ends; one that is silent for too long is reported too."""

import asyncio
import io
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from lumicontainer.errors import InputError
from lumicontainer.system import process_tree
from lumicontainer.system.programs import logged, write_limit
from lumicontainer.system.programs.patience import LONGEST, SILENCE, Limit, Patience

pytestmark = pytest.mark.slow

BRIEF, PATIENT = Patience(0.4), Patience(10)
NOW_AND_THEN = "for i in {1..35}; do echo x >>%s; sleep 0.3; done; exit 3"


class OnceItHangs(Patience):
    """Wait for the first output, and for a condition, as long as a busy machine needs."""

    holds: Callable[[], bool] = staticmethod(lambda: True)
    reads = 0

    @property
    def silence(self) -> float:
        self.reads += 1
        if self.reads == 1:
            return 600
        while not self.holds():
            time.sleep(0.01)
        return 0.4


def run_and_read(script: str, patience: Patience = BRIEF) -> tuple[int | None, str, str]:
    """Run a script of bash; return its status, or None if it was ended, its log and its report."""
    log = io.StringIO()
    try:
        status = asyncio.run(logged.run_logged(["bash", "-c", script], log, patience=patience))
    except (logged.SilentError, logged.OverdueError, logged.ExcessError) as error:
        return None, log.getvalue(), str(error)
    return status, log.getvalue(), ""


def alive(mark: str) -> list[str]:
    """Return the processes whose command has a word."""
    commands = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            commands.append((folder / "cmdline").read_bytes().decode(errors="replace"))
    return [command for command in commands if mark in command]


@pytest.fixture
def mark() -> Iterator[str]:
    """Return a word that stands in the commands of this test alone."""
    word = f"mark-{os.getpid()}-{os.urandom(4).hex()}"
    yield word
    assert alive(word) == []


def test_a_program_has_ended_before_its_parent_asks_for_its_exit_code() -> None:
    with subprocess.Popen(["sleep", "1000"]) as child:
        assert process_tree.read_start(child.pid) > 0
        process_tree.kill(child.pid)
        assert process_tree.read_start(child.pid) == 0
    assert process_tree.read_start(child.pid) == 0


HANGS = {
    "sleeps": "exec -a {mark} sleep 1000",
    "loops": "trap '' TERM INT HUP; : {mark}; while :; do :; done",
    "sends itself a signal for ever": "trap : INT TERM; : {mark}; while :; do kill -INT $$; done",
    "waits in a session of its own": "setsid bash -c \"trap '' TERM; : {mark}; sleep 999; true\"",
    "has left a child that holds its output": "bash -c ': {mark}; sleep 1000; true' & exit 0",
    "starts others without end": "while :; do bash -c ': {mark}; sleep 0.05'; done",
}


@pytest.mark.parametrize("script", HANGS.values(), ids=HANGS)
def test_what_hangs_is_ended_with_all_that_it_started_and_reported(mark: str, script: str) -> None:
    script = f"printf 'begun\\nlast'; {script.format(mark=mark)}"
    status, log, report = run_and_read(script, OnceItHangs())
    assert status is None
    assert log == "begun\nlast\n"
    assert mark in report, report
    states = r"(?m)^ *\d+ (running|sleeping|stopped), \d+\.\d s of processor time: "
    assert re.search(states, report)


def test_a_program_that_prints_for_ever_is_ended_with_all_that_it_started(mark: str) -> None:
    script = f"bash -c ': {mark}; sleep 1000; true' & while :; do echo again; sleep 0.01; done"
    status, log, report = run_and_read(script, Patience(total=2))
    assert status is None
    assert "again\n" in log
    assert mark in report
    assert run_and_read("echo done", Patience(total=600))[:2] == (0, "done\n")


def test_a_program_that_writes_for_ever_is_ended_with_all_that_it_started(
    mark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_limit, "_PAUSE", 0)
    write = f"head -c 3000000 /dev/zero >{tmp_path}/x"
    script = f"bash -c ': {mark}; sleep 1000; true' & {write}; wait"
    status, _, report = run_and_read(script, Patience(most=1 << 20))
    assert status is None
    assert mark in report
    assert run_and_read(write, Patience(most=1 << 30))[0] == 0


def test_the_report_shows_who_started_whom_and_where_in_the_kernel_each_is(mark: str) -> None:
    number = int.from_bytes(os.urandom(3)) + 1000
    sleeping = re.compile(rf"sleep {number}\n +in the kernel: \w*nanosleep")
    patience = OnceItHangs()
    patience.holds = lambda: sleeping.search(process_tree.report(os.getpid())) is not None
    _, _, report = run_and_read(f"echo; bash -c ': {mark}; sleep {number}; true'; true", patience)
    depths = [len(line) - len(line.lstrip()) for line in report.splitlines() if " s of " in line]
    assert depths == list(range(0, 2 * len(depths), 2))
    assert sleeping.search(report), report


def test_a_program_that_prints_now_and_then_is_not_ended() -> None:
    status, log, _ = run_and_read(NOW_AND_THEN % "/dev/stdout", PATIENT)
    assert (status, log) == (3, "x\n" * 35)


def test_a_program_that_writes_files_is_silent_unless_that_counts(tmp_path: Path) -> None:
    script = NOW_AND_THEN % (tmp_path / "file")
    assert run_and_read(script, PATIENT._replace(writing=True))[0] == 3
    assert run_and_read(script)[0] is None
    assert run_and_read("sleep 1000", BRIEF._replace(writing=True))[0] is None


def test_control_characters_of_commands_stay_out_of_what_is_reported(mark: str) -> None:
    command = [sys.executable, "-c", "print(flush=True); input()", f"{mark}\x1b[31m\n"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes, start_new_session=True) as child:
        assert child.stdout.readline()  # Until then the kernel may show no command.
        report = process_tree.report(child.pid)
        process_tree.kill(child.pid)
        assert child.wait(120) == -signal.SIGKILL
    assert mark in report
    assert "\x1b" not in report


@pytest.mark.parametrize(
    ("limit", "named", "seconds"),
    [
        (SILENCE, "", 1800),
        (SILENCE, "2", 120),
        (SILENCE, "0.05", 3),
        (SILENCE, "0", None),
        (LONGEST, "2", 7200),
    ],
    ids=repr,
)
def test_the_limits_of_steps_are_numbers_of_minutes_and_hours(
    monkeypatch: pytest.MonkeyPatch, limit: Limit, named: str, seconds: float | None
) -> None:
    monkeypatch.setenv(limit.variable, named)
    assert limit.read() == seconds


@pytest.mark.parametrize("limit", [SILENCE, LONGEST])
@pytest.mark.parametrize("named", ["long", "-1", "nan", "inf", "1h"])
def test_another_limit_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, limit: Limit, named: str
) -> None:
    monkeypatch.setenv(limit.variable, named)
    with pytest.raises(InputError, match=f"invalid {limit.variable} '{named}'"):
        limit.read()


def test_a_program_works_before_its_stdin_is_known(tmp_path: Path) -> None:
    async def run() -> tuple[int, str]:
        log, stdin = io.StringIO(), asyncio.get_running_loop().create_future()
        begun = tmp_path / "begun"
        task = asyncio.create_task(
            logged.run_logged(["sh", "-c", f"touch {begun}; cat"], log, stdin=stdin)
        )
        while not begun.exists():
            await asyncio.sleep(0.01)
        stdin.set_result(b"known\n" * 50_000)
        return await task, log.getvalue()

    assert asyncio.run(run()) == (0, "known\n" * 50_000)


def test_a_program_that_reads_no_stdin_ends_by_its_own_status() -> None:
    async def run() -> int:
        stdin = asyncio.get_running_loop().create_future()
        stdin.set_result(bytes(1 << 20))
        return await logged.run_logged(["sh", "-c", "exit 7"], io.StringIO(), stdin=stdin)

    assert asyncio.run(run()) == 7


async def cancelled_after(turns: int, mark: str) -> None:
    """Cancel a program after some turns of the event loop, in which it starts."""
    command = ["bash", "-c", f": {mark}; sleep 1000; true"]
    running = asyncio.create_task(logged.run_logged(command, io.StringIO()))
    for _ in range(turns):
        await asyncio.sleep(0)
    running.cancel()
    running.cancel()
    assert await asyncio.wait({running}, timeout=60) == ({running}, set())
    assert running.cancelled()


def test_a_program_that_is_cancelled_while_it_starts_ends(mark: str) -> None:
    async def cancel_at_every_turn() -> None:
        for turns in range(1, 12):
            await cancelled_after(turns, mark)
            assert alive(mark) == [], turns

    asyncio.run(cancel_at_every_turn())


def test_other_tasks_go_on_while_a_killed_program_waits_for_a_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts, seen = dict[int, int](), list[bool]()
    list_all = process_tree.descendants

    def descendants(pid: int) -> Iterator[tuple[int, process_tree.ProcessInfo]]:
        for depth, each in list_all(pid):
            starts[each.pid] = each.started
            yield depth, each

    async def run() -> None:
        others = asyncio.Event()

        def read_start(pid: int) -> int:
            seen.append(others.is_set())
            return 0 if others.is_set() else starts[pid]

        monkeypatch.setattr(process_tree, "read_start", read_start)

        async def work() -> None:
            while not seen:
                await asyncio.sleep(0)
            others.set()

        working = asyncio.create_task(work())
        with (tmp_path / "log").open("w") as log, pytest.raises(logged.OverdueError):
            await logged.run_logged(["sleep", "600"], log, patience=Patience(total=0.1))
        await working

    monkeypatch.setattr(process_tree, "descendants", descendants)
    monkeypatch.setattr(process_tree, "_DYING", 60)
    asyncio.run(run())
    assert seen[-1]


def test_a_program_that_prints_without_end_is_ended_by_one_cancellation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed = list[int]()
    monkeypatch.setattr(process_tree, "killing", lambda pid: killed.append(pid) or iter(()))

    async def cancel() -> None:
        printed = asyncio.Event()
        with (tmp_path / "log").open("w") as log:
            command = ["yes", "x" * 1000]
            running = asyncio.create_task(
                logged.run_logged(command, log, on_line=lambda _: printed.set())
            )
            await printed.wait()
            running.cancel()
            assert await asyncio.wait({running}, timeout=60) == ({running}, set())
        assert running.cancelled()

    for _ in range(20):
        asyncio.run(cancel())
    assert killed == []
