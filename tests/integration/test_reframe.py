"""lumicontainer reframe: the test class is run by the real ReFrame, here and on a real Slurm."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ..conftest import ROOT
from .conftest import lumicontainer, run

SITE = """
site_configuration = {
    "systems": [
        {
            "name": "cluster",
            "hostnames": [".*"],
            "partitions": [
                {
                    "name": "gpu",
                    "scheduler": "squeue",
                    "launcher": "srun",
                    "environs": ["builtin"],
                    "sched_options": {"unqualified_hostnames": True},
                }
            ],
        }
    ],
    "environments": [{"name": "builtin"}],
}
"""
"""The site's own configuration: jobs by sbatch, followed by squeue, for there is no accounting."""


@pytest.fixture(scope="session")
def reframe() -> str:
    """Return the program, installed where it is not there."""
    done = run([ROOT / "tests/reframe.sh"])
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def prove(reframe: str, proof: Path, tmp_path: Path) -> Any:
    """Write the test class of the image and run it; return what ReFrame printed, and its report."""
    image = tmp_path / "it's $(here).sif"
    image.symlink_to(proof)
    test = tmp_path / "test.py"

    def run_it(
        *words: str,
        env: dict[str, str] | None = None,
        platform: str = "workstation",
        gone: bool = False,
    ) -> tuple[Any, dict[str, Any]]:
        written = lumicontainer("reframe", image, "--output", test, "--platform", platform)
        assert written.returncode == 0, written.stderr
        if gone:
            image.unlink()
        command = [reframe, "--prefix", tmp_path / "stage", "--nocolor", "-c", test, "--run"]
        report = tmp_path / "report.json"
        own = {"RFM_REPORT_FILE": str(report), "RFM_RESULTS_DB": "0", **(env or {})}
        done = run([*command, *words], cwd=tmp_path, env=own)
        found = json.loads(report.read_text()) if report.exists() else {}
        return done, found

    return run_it


def cases(report: dict[str, Any]) -> dict[str, Any]:
    return {case["display_name"]: case for each in report["runs"] for case in each["testcases"]}


def test_an_image_that_holds_passes_with_what_it_measured(prove: Any) -> None:
    done, report = prove()
    assert done.returncode == 0, done.stdout
    case = cases(report)["LumiVerify_proof %part=all"]
    assert case["result"] == "pass"
    name = next(name for name in case["perfvalues"] if name.endswith("proof.pictures.speed"))
    value, reference, lower, upper, unit, _ = case["perfvalues"][name]
    assert (value, reference, lower, upper, unit) == (112.5, 100, 0, None, "GB/s")


def test_a_check_that_fails_fails_the_test_with_its_reason(prove: Any) -> None:
    done, report = prove("--setvar", "level=full")
    assert done.returncode == 1
    reason = cases(report)["LumiVerify_proof %part=all"]["fail_reason"]
    assert "proof/fails: <b>it is broken</b> (hint: write & hint it)" in reason


@pytest.fixture
def engine_that_reports(tmp_path: Path) -> Any:
    """Put an engine first on PATH that writes a report in the place of lumi-verify."""

    def put(report: dict[str, Any]) -> dict[str, str]:
        (tmp_path / "written.json").write_text(json.dumps(report))
        for name in ("singularity", "apptainer"):
            program = tmp_path / "bin" / name
            program.parent.mkdir(exist_ok=True)
            program.write_text(f"#!/bin/sh\ncp '{tmp_path}/written.json' verify.json\n")
            program.chmod(0o755)
        return {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}

    return put


HELD = {"name": "proof/pictures", "state": "passed", "reason": "", "hint": "", "measured": []}
KILLED = "lumi-verify has not come to its end"


def test_a_report_that_was_cut_short_is_no_proof(prove: Any, engine_that_reports: Any) -> None:
    done, report = prove(env=engine_that_reports({"checks": [HELD], "interrupted": KILLED}))
    assert done.returncode == 1
    reason = cases(report)["LumiVerify_proof %part=all"]["fail_reason"]
    assert "proof/environment: it has no outcome" in reason
    assert f"the report is not whole: {KILLED}" in reason


def test_where_lumicontainer_binds_fails_the_image_is_not_run(
    prove: Any, engine_that_reports: Any
) -> None:
    env = engine_that_reports({"checks": [HELD], "interrupted": ""})
    done, report = prove(env=env, platform="lumi-g", gone=True)
    assert done.returncode == 1
    reason = cases(report)["LumiVerify_proof %part=all"]["fail_reason"]
    assert "lumi-verify has not written" in reason


def test_on_slurm_ranks_meet_and_mpi_has_a_step_of_its_own(
    prove: Any, cluster: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "site.py").write_text(SITE)
    site = ("-C", str(tmp_path / "site.py"), "--setvar", "level=full", "--setvar", "nodes=2")
    done, report = prove(*site, env=cluster)
    found = cases(report)
    assert found["LumiVerify_proof %part=proof/mpi"]["result"] == "pass", done.stdout
    reason = found["LumiVerify_proof %part=all"]["fail_reason"]
    assert "proof/fails" in reason
    assert "proof/ranks" not in reason


def test_the_class_stays_python_whatever_an_image_is_called(proof: Path, tmp_path: Path) -> None:
    image = tmp_path / "a'b\"c\n{{ x }}.sif"
    image.symlink_to(proof)
    done = lumicontainer("reframe", image)
    names: dict[str, Any] = {}
    lines = done.stdout.partition("IMAGE = ")[2].partition("\nCHECKS")[0]
    exec(f"IMAGE = {lines}", names)
    assert names["IMAGE"] == str(image)
    compile(done.stdout, "test.py", "exec")
    assert isinstance(done, subprocess.CompletedProcess)
