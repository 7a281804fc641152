"""A rank's stdout and stderr go to its own files, and never over the files of another run."""

import os
from pathlib import Path

import pytest

from .. import seen
from ..conftest import Entry, run

pytestmark = pytest.mark.slow

TALK = ("--", "sh", "-c", "echo out; echo err >&2")


def texts(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_each_rank_writes_to_two_files_named_by_job_and_rank(entry: Entry, tmp_path: Path) -> None:
    for rank in (1, 3):
        done = entry("--log-dir", "logs/run", *TALK, env=seen.srun(rank))
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert texts(tmp_path / "logs/run") == {
        "1.0-rank1.out": "out\n",
        "1.0-rank1.err": "err\n",
        "1.0-rank3.out": "out\n",
        "1.0-rank3.err": "err\n",
    }


def test_files_of_an_earlier_run_stay_as_they_are(entry: Entry, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    for name in ("1.0-rank0.out", "1.0-rank0.err", "1.0-rank0.1.err"):
        (logs / name).write_text("mine")
    entry("--log-dir", "logs", *TALK, env=seen.srun(0))
    assert texts(logs) == {
        "1.0-rank0.out": "mine",
        "1.0-rank0.err": "mine",
        "1.0-rank0.1.err": "mine",
        "1.0-rank0.2.out": "out\n",
        "1.0-rank0.2.err": "err\n",
    }


@pytest.mark.parametrize(("rank", "files"), [(0, 1), (1, 0)])
def test_the_first_rank_of_a_node_writes_which_ranks_are_there(
    entry: Entry, tmp_path: Path, rank: int, files: int
) -> None:
    env = {**seen.srun(rank), "SLURM_GTIDS": "0,1"}
    assert entry("--log-dir", "logs", *TALK, env=env).returncode == 0
    written = {name: text for name, text in texts(tmp_path / "logs").items() if "node" in name}
    node = f"1.0-node-{os.uname().nodename}.ranks"
    assert written == dict.fromkeys([node] * files, "0,1\n")


def test_what_lumi_entry_says_goes_where_it_went(entry: Entry, tmp_path: Path) -> None:
    done = entry("--log-dir", "logs", "--", "no-such-command", env=seen.srun(0))
    assert done.returncode == 127
    assert done.stderr.startswith("error: command not found: 'no-such-command'\n")
    assert set(texts(tmp_path / "logs").values()) == {""}


def test_the_program_inherits_no_more_descriptors(entry: Entry, tmp_path: Path) -> None:
    plain = entry("--", "sh", "-c", "echo /proc/$$/fd/*").stdout
    entry("--log-dir", "logs", "--", "sh", "-c", "echo /proc/$$/fd/*")
    logged = (tmp_path / "logs/rank0.out").read_text()
    assert plain.count("/fd/") == logged.count("/fd/")


def test_closed_standard_streams_become_files_all_the_same(launcher: Path, tmp_path: Path) -> None:
    command = f"exec '{launcher}' --log-dir logs -- echo here >&-"
    assert run("sh", "-c", command, cwd=tmp_path).returncode == 0
    assert (tmp_path / "logs/rank0.out").read_text() == "here\n"


def test_a_folder_that_cannot_be_is_reported_by_every_rank(entry: Entry, tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("a file")
    done = [entry("--log-dir", "logs", *TALK, env=seen.srun(rank)) for rank in range(3)]
    assert [one.returncode for one in done] == [3, 3, 3]
    assert [one.stderr.count("\n") for one in done] == [4, 1, 1]
    assert done[0].stderr.startswith("error: cannot write logs to 'logs': File exists\n")
    assert "hint: choose a folder that every node can write to" in done[0].stderr


def test_a_full_disk_is_reported_before_the_program_starts(launcher: Path, tmp_path: Path) -> None:
    # A file system of the test's own, full but for its inodes.
    script = """
        mount -t tmpfs -o size=64k full "$1"
        head -c 1M /dev/zero >"$1/all" 2>/dev/null
        exec "$2" --log-dir "$1" -- sh -c 'echo started >"$0"' "$3"
    """
    full, started = tmp_path / "full", tmp_path / "started"
    full.mkdir()
    words = ("sh", "-c", script, "sh", full, launcher, started)
    done = run("unshare", "--map-root-user", "--mount", *words)
    assert done.returncode == 3
    assert "No space left on device" in done.stderr
    assert not started.exists()
