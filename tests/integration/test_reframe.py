"""lumicontainer reframe: the test class is run by the real ReFrame, here and on a real Slurm."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ..cli.conftest import succeeded
from ..conftest import ROOT
from .conftest import lumicontainer, run
from .processes import Env

SITE = """
partition = {"name": "gpu", "scheduler": "squeue", "launcher": "srun", "environs": ["builtin"]}
partition["sched_options"] = {"unqualified_hostnames": True}
system = {"name": "cluster", "hostnames": [".*"], "partitions": [partition]}
site_configuration = {"systems": [system], "environments": [{"name": "builtin"}]}
"""
"""The site's own configuration: jobs by sbatch, followed by squeue, for there is no accounting."""


@pytest.fixture(scope="session")
def reframe() -> str:
    """Return the program; install it if it is missing."""
    done = succeeded(run([ROOT / "tests/reframe.sh"]))
    return done.stdout.strip()


Prove = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def prove(reframe: str, proof: Path, tmp_path: Path) -> Prove:
    """Write the test class of the image and run it; return the exit code, and the test cases."""
    image = tmp_path / "it's $(here).sif"
    image.symlink_to(proof)
    test, report = tmp_path / "test.py", tmp_path / "report.json"

    def run_it(
        *words: str,
        env: dict[str, str] | None = None,
        platform: str = "workstation",
        gone: bool = False,
    ) -> tuple[int, dict[str, Any]]:
        succeeded(lumicontainer("reframe", image, "--output", test, "--platform", platform))
        if gone:
            image.unlink()
        command = [reframe, "--prefix", tmp_path / "stage", "--nocolor", "-c", test, "--run"]
        own = {"RFM_REPORT_FILE": str(report), "RFM_RESULTS_DB": "0", **(env or {})}
        done = run([*command, *words], cwd=tmp_path, env=own)
        assert report.exists(), done.stdout + done.stderr
        runs = json.loads(report.read_text())["runs"]
        return done.returncode, {
            case["display_name"].removeprefix("LumiVerify_proof %part="): case
            for each in runs
            for case in each["testcases"]
        }

    return run_it


def test_an_image_that_holds_passes_with_what_it_measured(prove: Prove) -> None:
    code, cases = prove()
    assert (code, cases["all"]["result"]) == (0, "pass")
    ((value, reference, lower, upper, unit, _),) = (
        row for name, row in cases["all"]["perfvalues"].items() if name.endswith("pictures.speed")
    )
    assert (value, reference, lower, upper, unit) == (112.5, 100, 0, None, "GB/s")


def engine_that_reports(folder: Path, interrupted: str) -> dict[str, str]:
    """Put an engine first on PATH that writes a report in the place of lumi-verify."""
    held = {"name": "proof/pictures", "state": "passed", "reason": "", "hint": "", "measured": []}
    report = folder / "written.json"
    report.write_text(json.dumps({"checks": [held], "interrupted": interrupted}))
    for name in ("singularity", "apptainer"):
        program = folder / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\ncp '{report}' verify.json\n")
        program.chmod(0o755)
    return {"PATH": f"{folder}/bin:{os.environ['PATH']}"}


def test_a_report_that_was_cut_short_is_no_proof(prove: Prove, tmp_path: Path) -> None:
    killed = "lumi-verify has not come to its end"
    code, cases = prove(env=engine_that_reports(tmp_path, killed))
    reason = cases["all"]["fail_reason"]
    assert code == 1
    assert "proof/environment: it has no outcome" in reason
    assert f"the report is not whole: {killed}" in reason


def test_where_lumicontainer_binds_fails_the_image_is_not_run(prove: Prove, tmp_path: Path) -> None:
    env = engine_that_reports(tmp_path, "")
    code, cases = prove(env=env, platform="lumi-g", gone=True)
    assert code == 1
    assert "lumi-verify has not written" in cases["all"]["fail_reason"]


def test_for_a_platform_with_gpus_a_check_that_sees_none_fails(prove: Prove) -> None:
    code, cases = prove(platform="lumi-g")
    assert code == 1
    assert "proof/gpu: the kernel's driver shows no GPU" in cases["all"]["fail_reason"]


def test_on_slurm_ranks_meet_and_mpi_has_its_own_step(
    prove: Prove, cluster: Env, tmp_path: Path
) -> None:
    (tmp_path / "site.py").write_text(SITE)
    site = ("-C", str(tmp_path / "site.py"), "--setvar", "level=full", "--setvar", "nodes=2")
    code, cases = prove(*site, env=cluster)
    assert cases["proof/mpi"]["result"] == "pass", cases
    reason = cases["all"]["fail_reason"]
    assert code == 1
    assert "proof/fails: <b>it is broken</b> (hint: write & hint it)" in reason
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
