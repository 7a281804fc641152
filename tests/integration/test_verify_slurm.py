"""lumicontainer verify as a job of a real Slurm: followed, collected, cancelled, refused."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ..cli.conftest import succeeded
from .conftest import TRAINING, checks_of, lumicontainer, pasted, run, srun
from .processes import SECONDS, Env, jobs_of, started, wait_for

JOB = ("--nodes", "2")
NOT_IN_A_JOB = "other start modes of a container are checked by lumicontainer verify without a job"


def verify(
    image: Path, folder: Path, cluster: Env, *words: object
) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    """Verify an image in a job that is sent from ``folder``."""
    done = lumicontainer("verify", image, "--json", *words, cwd=folder, env=cluster)
    return done, json.loads(done.stdout) if done.stdout else {}


def never_ending(image: Path, *names: str) -> list[object]:
    """Return the command that verifies in a job by a check that ends only when it is too late."""
    words = [word for name in ("proof/slow", *names) for word in ("-k", name)]
    return [sys.executable, "-m", "lumicontainer", "verify", image, *JOB, *words]


@pytest.fixture
def slow(proof: Path, cluster: Env, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Send such a job; return once it runs."""
    env = {**cluster, "LUMICONTAINER_CACHE": str(tmp_path / "cache")}
    with started(never_ending(proof, "proof/pictures"), cwd=tmp_path, env=env) as process:
        assert any("proof/pictures" in line for line in process.stderr)
        yield process


def test_shipped_checks_pass_in_a_job(image: Path, cluster: Env, tmp_path: Path) -> None:
    done, result = verify(image, tmp_path, cluster, *JOB, "--level", "perf")
    assert done.returncode == 0, done.stderr
    rows = {row["name"]: row for row in result["checks"]}
    skipped = {name for name, row in rows.items() if row["state"] == "skipped"}
    assert {rows[name]["reason"] for name in skipped} == {NOT_IN_A_JOB}, done.stderr
    assert {row["state"] for name, row in rows.items() if name not in skipped} == {"passed"}
    assert checks_of(image) <= rows.keys() - skipped
    assert (result["place"]["nodes"], result["place"]["ranks"]) == (2, 4)
    hosts = [host for host in ("nid005001", "nid005002") for _ in range(2)]
    for name in TRAINING:
        assert [row["host"] for row in rows[name]["ranks"]] == hosts
    assert list(tmp_path.iterdir()) == []


def test_in_a_task_of_srun_verify_works_as_anywhere(small: Path, cluster: Env) -> None:
    """The ways of starting a container that take Slurm's variables away hold there too."""
    words = (sys.executable, "-m", "lumicontainer", "verify", small)
    done = succeeded(srun(cluster, *words, nodes=1, tasks=1))
    assert "passed   image/environment [cleanenv]" in done.stderr


def test_a_check_that_fails_in_a_job_of_one_node_is_a_failed_check_and_no_failed_job(
    proof: Path, cluster: Env, tmp_path: Path
) -> None:
    chosen = ("-k", "proof/fails", "-k", "proof/ranks")
    done, result = verify(proof, tmp_path, cluster, "--nodes", "1", *chosen)
    assert done.returncode == 1
    assert (result["place"]["nodes"], result["place"]["ranks"]) == (1, 2)
    rows = {row["name"]: row for row in result["checks"]}
    ranks, row = rows["proof/ranks"], rows["proof/fails"]
    assert ranks["state"] == "passed"
    (one, other) = (each["host"] for each in ranks["ranks"])
    assert one == other
    assert row["reason"] == "<b>it is broken</b>"
    assert f"run it again: {row['again']}\n" in done.stderr
    again = pasted(row["again"], cwd=tmp_path, env=cluster)
    assert again.returncode == 1, again.stderr
    assert "failed   proof/fails: <b>it is broken</b>" in again.stdout
    assert "job " in again.stderr


def test_the_binds_of_the_platform_are_found_out_on_the_node(
    proof: Path, proof_recipes: Path, cluster: Env, tmp_path: Path
) -> None:
    own, data = tmp_path / "own dir", tmp_path / "data"
    data.mkdir()
    (own / "envs").mkdir(parents=True)
    bind = {"path": str(data), "reason": "data lies there"}
    platform = f"summary: x\naccelerator: cpu\nbinds: {json.dumps([bind])}\n"
    (own / "envs/site.yaml").write_text(platform)
    words = (*JOB, "--platform", "site", "--recipes", own, "-k", "proof/pictures")
    done, _ = verify(proof, tmp_path, cluster, *words)
    assert done.returncode == 0, done.stderr


def test_ctrl_c_cancels_the_job(slow: subprocess.Popen[str], cluster: Env, tmp_path: Path) -> None:
    assert len(jobs_of(cluster, tmp_path)) == 1
    slow.send_signal(signal.SIGINT)
    slow.communicate(timeout=SECONDS)
    assert slow.returncode == 130
    wait_for(lambda: jobs_of(cluster, tmp_path) == [])
    assert list((tmp_path / "cache/jobs").iterdir()) == []


@pytest.mark.parametrize("how", [(), ("--signal=KILL", "--batch")], ids=["cancelled", "killed"])
def test_a_job_that_somebody_ends_ends_with_7_and_keeps_its_log(
    slow: subprocess.Popen[str], cluster: Env, tmp_path: Path, how: tuple[str, ...]
) -> None:
    run(["scancel", *how, *jobs_of(cluster, tmp_path)], env=cluster)
    _, stderr = slow.communicate(timeout=SECONDS)
    assert slow.returncode == 7, stderr
    assert "error: the job failed" in stderr
    log = next(tmp_path.glob("cache/jobs/lumi-verify-*/log"))
    assert str(log) in stderr
    assert "proof/pictures" in log.read_text()


def test_a_job_that_slurm_would_never_start_is_refused_with_its_reason(
    proof: Path, cluster: Env, tmp_path: Path
) -> None:
    """The other reasons are in test_build_jobs.py; the job of a build is submitted alike."""
    asks = {**cluster, "SBATCH_TIMELIMIT": "5:00:00"}
    done, _ = verify(proof, tmp_path, asks, *JOB, "-k", "proof/pictures")
    assert done.returncode == 7, done.stderr
    assert "PartitionTimeLimit" in done.stderr
    assert "sinfo --format" in done.stderr
    assert jobs_of(cluster, tmp_path) == []
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def busy(cluster: Env) -> Iterator[None]:
    """Have both nodes taken by a job of somebody else."""
    words = ["sbatch", "--parsable", "--exclusive", "--nodes=2", "--output=/dev/null"]
    number = run([*words, "--wrap=exec tail -f /dev/null"], env=cluster).stdout.strip()
    wait_for(
        lambda: "RUNNING" in run(["squeue", f"--jobs={number}", "-h", "-o%T"], env=cluster).stdout
    )
    yield
    run(["scancel", number], env=cluster)


@pytest.mark.usefixtures("busy")
def test_a_job_says_why_it_waits_and_is_given_up_once_somebody_holds_it(
    proof: Path, cluster: Env, tmp_path: Path
) -> None:
    with started(never_ending(proof), cwd=tmp_path, env=cluster) as process:
        waits = re.compile(r"job \d+ in the queue since [\d:]+: (Resources|Priority)")
        assert any(waits.search(line) for line in process.stderr)
        run(["scontrol", "uhold", *jobs_of(cluster, tmp_path)], env=cluster)
        _, stderr = process.communicate(timeout=SECONDS)
    assert process.returncode == 7, stderr
    assert "Slurm cannot start the job: JobHeldUser" in stderr
    assert jobs_of(cluster, tmp_path) == []
    assert list(tmp_path.iterdir()) == []
