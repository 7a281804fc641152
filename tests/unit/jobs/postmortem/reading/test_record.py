"""Slurm's record of a job, where its programs say little or nothing."""

from pathlib import Path

import pytest

from lumicontainer.jobs import slurm
from lumicontainer.jobs.postmortem.reading.record import JobRecord, ask_slurm

NODE = "nid005002"
FIELDS = {
    "JobState": "NODE_FAIL",
    "NodeList": NODE,
    "StdOut": "/scratch/me/slurm-7.out",
    "StdErr": "/scratch/me/slurm-7.out",
    "WorkDir": "/scratch/me",
}


def element(index: str, number: str, state: str) -> dict[str, str]:
    return {"JobId": number, "ArrayJobId": "7", "ArrayTaskId": index, "JobState": state}


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm, "job_records", lambda _: [])
    monkeypatch.setattr(slurm, "job_account", lambda _: [])
    monkeypatch.setattr(slurm, "dead_nodes", lambda nodes: [nodes])


def test_scontrol_says_how_a_job_ended_and_where_its_output_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(slurm, "job_records", lambda _: [FIELDS])
    output, folder = Path("/scratch/me/slurm-7.out"), Path("/scratch/me")
    seen = ask_slurm("7")
    assert (seen.state, seen.dead_nodes, seen.only_node) == ("NODE_FAIL", (NODE,), NODE)
    assert (seen.outputs, seen.folder, seen.restarts) == ((output,), folder, 0)
    assert (seen.names, seen.source) == (("7",), "scontrol")


def test_a_node_that_does_not_answer_is_named_while_its_job_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(slurm, "job_records", lambda _: [{**FIELDS, "JobState": "RUNNING"}])
    assert ask_slurm("7").dead_nodes == (NODE,)
    monkeypatch.setattr(slurm, "job_records", lambda _: [{**FIELDS, "JobState": "COMPLETED"}])
    assert ask_slurm("7").dead_nodes == ()


def test_a_job_of_an_array_has_two_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm, "job_records", lambda _: [element("3", "9", "FAILED")])
    assert set(ask_slurm("7_3").names) == {"7_3", "9"}
    assert set(ask_slurm("9").names) == {"7_3", "9"}


def test_the_jobs_of_an_array_are_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    both = [element("4", "7", "COMPLETED"), element("3", "9", "FAILED")]
    monkeypatch.setattr(slurm, "job_records", lambda _: both)
    assert ask_slurm("7") == JobRecord(parts=("7_4 COMPLETED", "7_3 FAILED"))
    rows = [[f"7_{name}", "FAILED", "1:0", ""] for name in ("3", "3.batch", "4", "4.0")]
    monkeypatch.setattr(slurm, "job_records", lambda _: [])
    monkeypatch.setattr(slurm, "job_account", lambda _: rows)
    assert ask_slurm("7").parts == ("7_3 FAILED", "7_4 FAILED")


def test_sacct_knows_jobs_that_scontrol_has_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [["7", "CANCELLED by 1000", "0:15", "nid[005001-005002]"], ["7.0", "FAILED", "1:0", ""]]
    monkeypatch.setattr(slurm, "job_account", lambda _: rows)
    assert ask_slurm("7") == JobRecord("CANCELLED", ("7",), source="sacct")


def test_a_job_that_slurm_does_not_know_has_an_empty_record() -> None:
    assert ask_slurm("7") == JobRecord(names=("7",))
