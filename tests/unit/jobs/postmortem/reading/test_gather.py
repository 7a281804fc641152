"""Files that a job left are found by their names, and read without trust."""

import os
from pathlib import Path

import pytest

from lumicontainer.jobs.postmortem.reading import files
from lumicontainer.jobs.postmortem.reading.gather import Run, gather
from lumicontainer.system.terminal import masking

from ..leftovers import CLOSED, ranks, traceback, write


def test_lines_of_srun_and_torchrun_belong_to_the_ranks_in_their_labels(tmp_path: Path) -> None:
    text = traceback("KeyError: 'a'", label="1: ") + traceback(CLOSED, label="[rank0]: ")
    logs = gather([write(tmp_path, {"slurm-7.out": text})]).logs
    named = {
        log.rank: log.traceback and log.traceback.error for log in logs if log.rank is not None
    }
    assert named == {1: "KeyError: 'a'", 0: CLOSED}


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("7.0-rank003.err", 3),
        ("attempt_0/3/stderr.log", 3),
        ("logs/rank_3.log", 3),
        ("slurm-7.out", None),
        ("3.log", 3),
    ],
)
def test_a_name_of_a_log_has_its_rank(tmp_path: Path, name: str, rank: int | None) -> None:
    (log,) = gather([write(tmp_path, {name: "hello\n"})]).logs
    assert log.rank == rank


def test_of_several_jobs_the_newest_is_read_or_the_one_that_is_named(tmp_path: Path) -> None:
    write(tmp_path, {"7.0-rank0.err": "", "8.0-rank0.err": ""}, {"8.0-rank0.err": 5})
    assert [log.path.name for log in gather([tmp_path]).logs] == ["8.0-rank0.err"]
    assert gather([tmp_path]).other_jobs == ["7"]
    assert [log.path.name for log in gather([tmp_path], Run(("7",))).logs] == ["7.0-rank0.err"]


def test_outputs_of_several_jobs_are_never_read_as_one(tmp_path: Path) -> None:
    write(tmp_path, {"slurm-7_1.out": "", "slurm-7_10.out": "", "8.0-rank0.err": ""})
    write(tmp_path, {"slurm-7_9.out": ""}, {"slurm-7_9.out": 5})
    assert [log.path.name for log in gather([tmp_path]).logs] == ["slurm-7_9.out"]
    assert gather([tmp_path]).other_jobs == ["7_1", "7_10", "8"]


def test_a_file_that_is_named_says_which_job_it_is(tmp_path: Path) -> None:
    names = ["7.0-rank0.err", "slurm-7.out", "8.0-rank0.err"]
    write(tmp_path, dict.fromkeys(names, ""), {"8.0-rank0.err": 5})
    read = gather([tmp_path, tmp_path / "slurm-7.out"]).logs
    assert {log.path.name for log in read} == {"7.0-rank0.err", "slurm-7.out"}


def test_the_output_of_a_job_of_an_array_is_called_by_its_other_name(tmp_path: Path) -> None:
    write(tmp_path, {"9.0-rank0.err": "", "7_3.out": "", "slurm-7_3.out": "", "slurm-8.out": ""})
    read = gather([tmp_path], Run(("9", "7_3"), [tmp_path / "slurm-8.out"])).logs
    assert {log.path.name for log in read} == {path.name for path in tmp_path.iterdir()}


def test_of_a_job_that_slurm_started_again_the_last_run_is_read(tmp_path: Path) -> None:
    over = "slurmstepd: error: *** JOB 7 ON nid1 CANCELLED AT 2026-11-27 DUE TO JOB REQUEUE ***"
    output = write(tmp_path, {"slurm-7.out": f"one\n{over}\ntwo\n"}) / "slurm-7.out"
    (log,) = gather([], Run(("7",), [output])).logs
    assert [event.match.signature.id for event in log.events] == ["preempted"]
    (log,) = gather([], Run(("7",), [output], is_repeated=True)).logs
    assert (log.events, log.last) == ((), "two")


def test_numbers_of_ranks_are_not_taken_for_jobs(tmp_path: Path) -> None:
    names = ["0.log", "1.log", "2.log", "out-0.txt"]
    assert len(gather([write(tmp_path, dict.fromkeys(names, "hello"))]).logs) == len(names)


def test_of_several_runs_of_one_step_the_last_is_read(tmp_path: Path) -> None:
    write(tmp_path, {"7.0-rank0.err": "", "7.0-rank0.1.err": ""}, {"7.0-rank0.1.err": 5})
    assert [log.path.name for log in gather([tmp_path]).logs] == ["7.0-rank0.1.err"]


def test_links_pipes_and_damaged_dumps_are_not_read(tmp_path: Path) -> None:
    write(tmp_path, {"7.0-flight-recorder-rank0": "no pickle"})
    (tmp_path / "7.0-rank1.err").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "7.0-rank2.err")
    material = gather([tmp_path])
    assert (list(material.logs), list(material.dumps)) == ([], [])
    assert len(material.unreadable) == 1


def test_of_a_huge_log_the_start_and_the_end_are_read(tmp_path: Path) -> None:
    path = tmp_path / "7.0-rank0.err"
    with path.open("wb") as stream:
        stream.write(b"\x1b[31mfirst\n")
        stream.truncate(1 << 30)
        stream.seek(0, os.SEEK_END)
        stream.write(traceback(CLOSED).encode())
    assert len(files.read_text(path)) < 2 * (files.HEAD + files.TAIL)
    (log,) = gather([tmp_path]).logs
    assert log.traceback is not None
    assert log.traceback.error == CLOSED


def test_secrets_and_escape_sequences_are_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(masking, "_hidden", {})
    token = f"hf_{'a1' * 15}"
    write(tmp_path, ranks(f"KeyError: '{token} \x1b[31mred\x07'"))
    (log,) = gather([tmp_path]).logs
    assert log.traceback is not None
    assert log.traceback.error == "KeyError: '*** red'"


def test_the_file_of_torchelastic_has_the_traceback_of_its_rank(tmp_path: Path) -> None:
    text = traceback("KeyError: 'a'").replace("\n", "\\n").replace('"', '\\"')
    data = f'{{"message": {{"message": "m", "extraInfo": {{"py_callstack": "{text}"}}}}}}'
    (log,) = gather([write(tmp_path, {"attempt_0/2/error.json": data})]).logs
    assert (log.rank, log.traceback and log.traceback.error) == (2, "KeyError: 'a'")
