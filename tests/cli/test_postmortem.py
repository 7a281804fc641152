"""``postmortem`` prints one cause to stdout, and says by its exit code whether the job failed."""

import json
from pathlib import Path

import pytest

from ..unit.jobs.postmortem.leftovers import CLOSED, ranks, write
from .conftest import Run, refused

SPACE = "OSError: [Errno 28] No space left on device"


def test_the_cause_is_on_stdout_with_rank_line_and_hint(lumicontainer: Run, tmp_path: Path) -> None:
    done = lumicontainer("postmortem", write(tmp_path / "logs", ranks(CLOSED, SPACE, CLOSED)))
    assert (done.returncode, done.stderr) == (1, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "rank 1: no space is left on the file system that it wrote to"
    assert lines[1] == "  where: /users/me/train.py:7"
    assert [line for line in lines if line.startswith("   then: ranks 0, 2 lost a connection")]


def test_a_healthy_job_ends_with_0(lumicontainer: Run, tmp_path: Path) -> None:
    done = lumicontainer("postmortem", write(tmp_path / "logs", ranks("", "")))
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "no failure in what was read")


MEMORY = "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB."


def test_a_log_that_ends_with_a_cause_is_that_of_a_failure(
    lumicontainer: Run, tmp_path: Path
) -> None:
    done = lumicontainer("postmortem", write(tmp_path / "logs", {"output.log": f"{MEMORY}\n"}))
    assert done.returncode == 1
    assert done.stdout.splitlines()[0] == "the job: the memory of its GPU is used up"


def test_a_cause_after_which_a_program_went_on_is_no_failure(
    lumicontainer: Run, tmp_path: Path
) -> None:
    logs = write(tmp_path / "logs", {"output.log": f"{MEMORY}\na smaller batch\n"})
    done = lumicontainer("postmortem", logs)
    lines = done.stdout.splitlines()
    assert done.returncode == 0
    assert lines[0].startswith("nothing in what was read proves that the job failed, but it says")
    assert lines[1].endswith(f"output.log:1: {MEMORY}")


def test_other_jobs_in_the_folder_are_named_with_the_command_that_reads_them(
    lumicontainer: Run, tmp_path: Path
) -> None:
    logs = write(tmp_path / "logs", {f"slurm-{number}.out": "" for number in (9, 10)})
    write(logs, {"slurm-11.out": ""}, {"slurm-11.out": 5})
    done = lumicontainer("postmortem", logs)
    assert "files of jobs 9, 10" in done.stdout
    assert "lumicontainer postmortem 10 FOLDER" in " ".join(done.stdout.split())


def test_data_has_what_was_read(lumicontainer: Run, tmp_path: Path) -> None:
    logs = write(tmp_path / "logs", ranks(CLOSED, CLOSED))
    done = lumicontainer("postmortem", logs, "--json")
    data = json.loads(done.stdout)
    assert (done.returncode, data["outcome"], data["ranks"]) == (1, "unknown", [])
    assert data["read"]["logs"] == 2


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["nowhere"], "folder of logs not found"),
        (["7", "8"], "expected one job"),
        (["7_1", "7_2"], "expected one job"),
        (["."], "cannot find what the job left"),
    ],
    ids=["no folder", "two jobs", "two of an array", "nothing to read"],
)
def test_wrong_input_is_refused(lumicontainer: Run, words: list[str], says: str) -> None:
    refused(lumicontainer("postmortem", *words), says)


def test_a_dump_that_cannot_be_read_is_named(lumicontainer: Run, tmp_path: Path) -> None:
    write(tmp_path / "logs", {"7.0-flight-recorder-rank0": "no pickle"})
    refused(lumicontainer("postmortem", tmp_path / "logs"), "flight-recorder-rank0: it is no")


def test_hostile_logs_print_no_escape_sequence(lumicontainer: Run, tmp_path: Path) -> None:
    error = "KeyError: '\x1b]0;title\x07\x1b[31m\u202eevil'"
    done = lumicontainer("postmortem", write(tmp_path / "lo\x1bgs", ranks(error, CLOSED)))
    assert done.returncode == 1
    assert not {"\x1b", "\x07", "\u202e"} & set(done.stdout)
