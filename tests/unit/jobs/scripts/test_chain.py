"""A job that sends itself again knows progress when it sees it, and leaves unfit nodes out."""

import subprocess
from pathlib import Path

import pytest
import yaml

from lumicontainer.api import postmortem
from lumicontainer.core.render.jinja import fill
from lumicontainer.jobs.postmortem.reading.signatures import DEFECT
from lumicontainer.jobs.scripts.chain import Chain, chain_faults, shell_pattern

from ....conftest import ROOT

NAMES = (
    "a b",
    "-type",
    "!",
    "(",
    "$HOME",
    "`id`",
    "it's",
    'a"b',
    "[x]",
    "*",
    "?",
    "~",
    "é",
    "{{a}}",
)


def whats(*arguments: object) -> list[str]:
    return [problem.what for problem in chain_faults(*arguments)]  # type: ignore[arg-type]


def test_a_job_that_sends_itself_again_names_its_checkpoint_and_has_time_to_save() -> None:
    assert whats("saved", "", 10) == []
    assert whats("saved", "", None) == []
    assert whats("", "0-3", 9) == [
        "--until-done needs a checkpoint",
        "--until-done continues one job, not an array",
        "the time is too short for --until-done",
    ]
    for hostile in ("a\nb", "a\\b", "\x1b[0m"):
        (what,) = whats(hostile, "", None)
        assert what.startswith("invalid checkpoint")


def run_functions(folder: Path, checkpoint: str, commands: str) -> str:
    """Return what bash commands print after the functions of a script."""
    text = fill("until_done/functions.sh.j2", chain=Chain(shell_pattern(checkpoint), 2))
    script = f"set -euo pipefail\n{text}\n{commands}\n"
    return subprocess.run(
        ["bash"], input=script, cwd=folder, capture_output=True, text=True, check=True
    ).stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_folder_of_any_name_can_hold_checkpoints(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / name / "step 1").mkdir(parents=True)
    (tmp_path / "x").write_text("newer, and none of its files")
    file = tmp_path / name / "step 1/model"
    file.touch()
    printed = run_functions(tmp_path, name, 'echo "$before"')
    assert printed.strip().partition(".")[0] == str(int(file.stat().st_mtime))
    for path in (name, str(tmp_path / name)):
        assert run_functions(tmp_path, path, 'echo "$before"') == printed


@pytest.mark.slow
def test_progress_is_a_newer_file_that_matches(tmp_path: Path) -> None:
    step = 'touch "{}"; [[ $(newest_time) > $before ]] && echo newer || echo same'
    rows = [step.format(name) for name in ("old 1/log", "old 1/state", "new/state")]
    (tmp_path / "old 1").mkdir()
    (tmp_path / "new").mkdir()
    for row, seen in zip(rows, ("same", "newer", "newer"), strict=True):
        assert run_functions(tmp_path, "*/sta[t]e", row) == f"{seen}\n"
    assert run_functions(tmp_path, "none*", rows[0]) == "same\n"


LOG = """\
error: node nid000002 is not fit: 1 of 7 checks failed
srun: error: Task launch for StepId=7.0 failed on node nid000003: Communication connection failure
error: node nid000099 is not fit: a line of another job
error: node $(touch ran) is not fit
the node nid000001 is not fit for polar bears
\x1b[31merror: node nid000005 is not fit: in a color\x1b[0m
"""
SCONTROL = r"""
export SLURM_JOB_ID=7 SLURM_JOB_NODELIST=x
scontrol() {
    if [[ $2 == job ]]; then
        printf '   ReqNodeList=(null) ExcNodeList=%s\n   StdErr=%s\n' "$own" "$PWD/the log"
    else
        printf 'nid00000%s\n' 1 2 3 4 5
    fi
}
"""


@pytest.mark.slow
@pytest.mark.parametrize("own", ["(null)", "nid000042,nid000007"])
def test_the_next_job_leaves_out_the_nodes_that_are_not_fit(tmp_path: Path, own: str) -> None:
    (tmp_path / "the log").write_text(LOG)
    printed = run_functions(tmp_path, "x", f"own='{own}'{SCONTROL}excluded_nodes")
    before = [] if own == "(null)" else [own]
    assert printed.split() == [*before, "nid000002", "nid000003", "nid000005"]
    assert not (tmp_path / "ran").exists()


ECC = """\
HW Exception by GPU node-4 (Agent handle: 0x1) reason :GPU Hang
srun: error: nid000004: task 3: Aborted
srun: error: nid000002: task 0: Terminated
"""


@pytest.mark.slow
def test_a_node_whose_gpu_is_defective_is_left_out(tmp_path: Path) -> None:
    for text, nodes in ((ECC, ["nid000004"]), (ECC.partition("\n")[2], [])):
        (tmp_path / "the log").write_text(text)
        printed = run_functions(tmp_path, "x", f"own='(null)'{SCONTROL}excluded_nodes")
        assert printed.split() == nodes


@pytest.mark.slow
def test_a_node_that_postmortem_blames_by_the_log_of_a_rank_is_left_out(tmp_path: Path) -> None:
    samples = yaml.safe_load((ROOT / "tests/unit/jobs/postmortem/reading/samples.yaml").read_text())
    log, of_rank = tmp_path / "the log", tmp_path / "7.0-rank3.err"
    log.write_text(ECC.partition("\n")[2])
    for file, nodes in ((tmp_path / "8.0-rank3.err", []), (of_rank, ["nid000004"])):
        file.write_text(samples[DEFECT])
        printed = run_functions(tmp_path, "x", f"own='(null)'{SCONTROL}excluded_nodes")
        assert printed.split() == nodes
    assert postmortem(log, of_rank).verdict.nodes == ["nid000004"]


@pytest.mark.slow
def test_jobs_that_slurm_repeats_count_as_restarts(tmp_path: Path) -> None:
    text = fill("until_done/functions.sh.j2", chain=Chain("./x", 2))
    for stalled, repeated, code in ((0, 2, 0), (1, 2, 1), (3, 0, 1)):
        script = f"set -euo pipefail\nset -- {stalled}\nSLURM_RESTART_COUNT={repeated}\n{text}"
        done = subprocess.run(["bash"], input=script, cwd=tmp_path, text=True, check=False)
        assert done.returncode == code
