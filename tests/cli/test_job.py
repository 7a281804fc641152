"""Everything that keeps a job from running is reported before it waits in a queue."""

from pathlib import Path

import pytest

from .conftest import Run

LUMI = ("job", "--platform", "lumi-g")


def test_all_that_is_wrong_is_reported_with_a_hint(lumicontainer: Run, tmp_path: Path) -> None:
    options = ("--partition", "small_g", "--gpus", "17", "--array", "7-0", "--dependency", "later")
    words = (*options, "--output", "logs/%j.out", "missing.sif", "--", "missing.py")
    done = lumicontainer(*LUMI, *words, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert errors == [
        "error: cannot read the image",
        "error: partition 'small_g' not found",
        "error: 3 nodes cannot share 17 GPUs evenly",
        "error: a job on lumi-g needs an account",
        "error: invalid array '7-0'",
        "error: invalid dependency 'later'",
        "error: folder not found 'logs'",
        "error: program not found 'missing.py'",
    ]
    assert done.stderr.count("hint: ") == len(errors)


def test_the_variable_of_sbatch_names_the_account(lumicontainer: Run, tmp_path: Path) -> None:
    words = (*LUMI, "missing.sif", "--", "demo")
    assert "needs an account" in lumicontainer(*words, cwd=tmp_path).stderr
    env = {"SBATCH_ACCOUNT": "project_465000001"}
    assert "needs an account" not in lumicontainer(*words, cwd=tmp_path, env=env).stderr


@pytest.mark.parametrize("option", ["--partition", "--account"])
@pytest.mark.parametrize("value", ["a b", "a;b", "$(id)", "-x", "a\nb", "é"])
def test_names_that_slurm_cannot_have_are_refused(
    lumicontainer: Run, option: str, value: str
) -> None:
    done = lumicontainer(*LUMI, f"{option}={value}", "missing.sif", "--", "demo")
    assert done.returncode == 2
    assert "expected a name of Slurm" in done.stderr


@pytest.mark.parametrize("value", ["60", "0", "1.5G", "60GB", "-1G", "9" * 5000])
def test_a_size_of_memory_has_a_unit(lumicontainer: Run, value: str) -> None:
    done = lumicontainer(*LUMI, f"--mem={value}", "missing.sif", "--", "demo")
    assert done.returncode == 2
    assert "expected a size such as 120G" in done.stderr


def test_an_array_is_not_waited_for(lumicontainer: Run) -> None:
    done = lumicontainer(*LUMI, "--array", "0-3", "--wait", "missing.sif", "--", "demo")
    assert done.returncode == 2
    assert "--wait follows one job, not an array" in done.stderr


def test_a_job_that_sends_itself_again_needs_a_checkpoint_and_time(lumicontainer: Run) -> None:
    words = (*LUMI, "--account", "p", "missing.sif", "--", "demo")
    done = lumicontainer("job", "--until-done", "--time", "5m", *words[1:])
    assert "error: --until-done needs a checkpoint" in done.stderr
    assert "error: the time is too short for --until-done" in done.stderr
    for option, value in (("--checkpoint", "x"), ("--restarts", "0")):
        done = lumicontainer("job", option, value, *words[1:])
        assert f"error: {option} is for jobs that send themselves again" in done.stderr
    done = lumicontainer("job", "--until-done", "--restarts", "-1", *words[1:])
    assert "expected a whole number from 0 on, got '-1'" in done.stderr
