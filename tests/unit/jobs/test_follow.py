"""The log of a job is passed on in time and memory that its length does not multiply."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from lumicontainer.errors import JobError
from lumicontainer.jobs import builds, follow, slurm
from lumicontainer.jobs.follow import Listener, SbatchOptions
from lumicontainer.system.programs.output_log import LONGEST
from lumicontainer.verify import job as verify

from ..reading import bytes_read
from ..verify.test_results import check, job_of

LONG = 50 << 20
TURN = 1 << 20
OTHER = 1 << 18
"""Bytes that a turn may read from other files."""


class Turns(threading.Event):
    """Do not wait between two looks at a log; note what was read before each."""

    def __init__(self, act: Callable[[int], None]) -> None:
        super().__init__()
        self.reads = [bytes_read()]
        self._act = act

    def wait(self, timeout: float | None = None) -> bool:  # noqa: ARG002 - as in its base
        self.reads.append(bytes_read())
        self._act(len(self.reads) - 1)
        assert len(self.reads) < 200
        return False


@pytest.fixture(autouse=True)
def _slurm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm, "check", lambda *_: None)
    monkeypatch.setattr(slurm, "submit", lambda _: "7")
    monkeypatch.setattr(slurm, "look", lambda _: slurm.UNKNOWN)
    monkeypatch.setattr(slurm, "cancel", lambda _: None)


def lines_of(folder: Path, act: Callable[[int], None]) -> tuple[list[str], list[int]]:
    """Follow a job, and act after each turn; return its lines, and what each turn read."""
    lines, turns = list[str](), Turns(act)
    follow.run(folder, "", SbatchOptions(), Listener(lines.append, stop=turns))
    turns.reads.append(bytes_read())
    reads = [after - before for before, after in zip(turns.reads, turns.reads[1:], strict=False)]
    return lines[1:], reads


@pytest.mark.slow
def test_a_long_line_is_read_once_and_a_bounded_part_in_a_turn(tmp_path: Path) -> None:
    (tmp_path / follow.LOG).write_bytes(b"x" * LONG)

    def act(turn: int) -> None:
        if turn == 3:
            (tmp_path / follow.ENDED).write_text("0")

    lines, reads = lines_of(tmp_path, act)
    assert max(reads) <= TURN + OTHER
    assert sum(reads) <= LONG + OTHER
    assert sum(map(len, lines)) == LONG
    assert max(map(len, lines)) <= 4 * LONGEST


def test_a_line_that_grows_is_read_once(tmp_path: Path) -> None:
    piece = b"x" * 10_000

    def act(turn: int) -> None:
        with (tmp_path / follow.LOG).open("ab") as log:
            log.write(piece)
        if turn == 100:
            (tmp_path / follow.ENDED).write_text("0")

    lines, reads = lines_of(tmp_path, act)
    assert sum(map(len, lines)) == 100 * len(piece)
    assert sum(reads) <= 2 * 100 * len(piece)


def test_all_lines_of_a_job_that_slurm_ended_are_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm, "look", lambda _: slurm.GONE)
    monkeypatch.setattr(slurm, "last_state", lambda _: "TIMEOUT")
    monkeypatch.setattr(follow, "_FIRST", 0)
    monkeypatch.setattr(follow, "_ASK", 0)
    rows = [f"row {number}" for number in range(500_000)]
    (tmp_path / follow.LOG).write_text("\n".join(rows))
    lines, _ = lines_of(tmp_path, lambda _: None)
    assert lines == rows


def test_the_reason_of_a_failed_compile_job_is_read_from_the_end_of_its_log(tmp_path: Path) -> None:
    log = tmp_path / follow.LOG
    log.write_bytes(b"x" * LONG + b"\nerror: no compiler\n hint: get one\n")
    before = bytes_read()
    problem = builds._failed("torch", JobError.code, log).problems[0]
    assert bytes_read() - before <= TURN
    assert problem.why == "no compiler\n hint: get one"


def test_the_reason_of_a_job_without_a_report_is_read_from_the_end_of_its_log(
    tmp_path: Path,
) -> None:
    (tmp_path / follow.LOG).write_bytes(b"x" * LONG + b"\nsrun: error: no such node\n")
    before = bytes_read()
    collected = verify._collect(job_of([check("a/b")], "workstation", Path("x.sif")), tmp_path, "")
    assert bytes_read() - before <= TURN
    assert collected.problem is not None
    assert collected.problem.why.endswith("srun: error: no such node")


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_a_log_that_is_a_pipe_or_a_device_is_not_read(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    make(tmp_path / follow.LOG)

    def act(turn: int) -> None:
        (tmp_path / follow.ENDED).write_text("0\n")

    assert lines_of(tmp_path, act)[0] == []


def test_the_log_of_a_job_that_starts_again_is_read_from_its_start(tmp_path: Path) -> None:
    log = tmp_path / follow.LOG
    log.write_text("the first run\n")

    def act(turn: int) -> None:
        log.write_text("again\n")
        if turn > 1:
            (tmp_path / follow.ENDED).write_text("0\n")

    assert lines_of(tmp_path, act)[0] == ["the first run", "again"]
