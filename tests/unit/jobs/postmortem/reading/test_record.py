"""Slurm's record of a job, where its programs say little or nothing."""

from pathlib import Path

import pytest

from lumicontainer.jobs import slurm
from lumicontainer.jobs.postmortem.reading.record import JobRecord, ask_slurm

FIELDS = {
    "JobState": "NODE_FAIL",
    "NodeList": "nid005002",
    "StdOut": "/scratch/me/slurm-7.out",
    "StdErr": "/scratch/me/slurm-7.out",
    "WorkDir": "/scratch/me",
}


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm, "job_fields", lambda _: {})
    monkeypatch.setattr(slurm, "job_account", lambda _: [])
    monkeypatch.setattr(slurm, "dead_nodes", lambda nodes: [nodes])


def test_scontrol_says_how_a_job_ended_and_where_its_output_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(slurm, "job_fields", lambda _: FIELDS)
    output, folder = Path("/scratch/me/slurm-7.out"), Path("/scratch/me")
    nodes = ("nid005002",)
    assert ask_slurm("7") == JobRecord("NODE_FAIL", nodes, *nodes, (output,), folder, "scontrol")


def test_sacct_knows_jobs_that_scontrol_has_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [["7", "CANCELLED by 1000", "0:15", "nid[005001-005002]"], ["7.0", "FAILED", "1:0", ""]]
    monkeypatch.setattr(slurm, "job_account", lambda _: rows)
    assert ask_slurm("7") == JobRecord("CANCELLED", source="sacct")


def test_a_job_that_slurm_does_not_know_has_an_empty_record() -> None:
    assert ask_slurm("7") == JobRecord()
