"""Every form of job that ``lumicontainer job`` writes runs on two nodes of a real Slurm."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lumicontainer.core.catalog import open_catalog
from lumicontainer.jobs import slurm
from lumicontainer.jobs.partitions import partition_differences

from ..conftest import ROOT
from .conftest import alone, lumicontainer, run
from .processes import SECONDS, Env, jobs_of, wait_for

PROGRAM = """\
import os, sys
names = ("SLURM_JOB_NAME", "RANK", "WORLD_SIZE", "SLURM_GPUS_ON_NODE", "SLURM_ARRAY_TASK_ID")
print(f"rank {' '.join(os.environ.get(name, '-') for name in names)} {sys.argv[1:]}", flush=True)
"""
FORMS = {
    "node": ("--nodes", "1", "--ntasks-per-node", "2"),
    "nodes": ("--nodes", "2", "--ntasks-per-node", "2"),
    "part": ("--gpus", "2"),
    "parts": ("--nodes", "2", "--gpus", "2"),
    "torchrun": ("--gpus", "2", "--launcher", "torchrun"),
    "array": ("--gpus", "1", "--array", "3-5:2"),
}
"""The options of each form. Each GPU has a task, unless a launcher starts its ranks."""
RANKS = {
    "node": ["0 2 8 -", "1 2 8 -"],
    "nodes": [f"{rank} 4 8 -" for rank in range(4)],
    "part": ["0 2 2 -", "1 2 2 -"],
    "parts": ["0 2 1 -", "1 2 1 -"],
    "torchrun": ["0 2 2 -", "1 2 2 -"],
    "array": ["0 1 1 3", "0 1 1 5"],
}
"""By form: rank, number of ranks, GPUs of the node, number in the array."""
CLUSTER = ("--recipes", ROOT / "tests/cluster", "--platform", "two-nodes", "--time", "10m")
IMAGE = "my $(id) image's `id`.sif"
HOSTILE = ("it's", "$HOME", "`id`", 'a"b', "a\nb", "", "-x", "é")


@pytest.fixture(scope="module")
def folder(image: Path, running_cluster: Env, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Submit a job of each form, and one that waits for all of them, in a folder with a space."""
    folder = tmp_path_factory.mktemp("a folder")
    (folder / "logs of jobs").mkdir()
    (folder / "my program.py").write_text(PROGRAM)
    (folder / IMAGE).symlink_to(image)
    with alone():
        run_forms(folder, running_cluster)
    return folder


def run_forms(folder: Path, cluster: Env) -> None:
    # Variables that a user may export; what the options say wins over them.
    own = {"SBATCH_PARTITION": "nowhere", "SBATCH_TIMELIMIT": "99-0"}
    where = {"cwd": folder, "env": {**cluster, **own}, "code": 0}
    numbers = list[str]()
    try:
        for form, options in FORMS.items():
            log = ("--output", f"logs of jobs/{form} $HOME-%j.out")
            command = (IMAGE, "--", "my program.py", *HOSTILE)
            done = lumicontainer("job", *CLUSTER, *options, *log, "--submit", *command, **where)
            numbers.append(done.stdout.strip())
        last = ("--gpus", "1", "--dependency", f"afterany:{':'.join(numbers)}", "--wait")
        lumicontainer("job", *CLUSTER, *last, IMAGE, "--", "my program.py", **where)
    finally:
        run(("scancel", "--quiet", *numbers), env=cluster)


@pytest.mark.parametrize("form", FORMS)
def test_each_form_of_job_starts_its_ranks_with_their_gpus(folder: Path, form: str) -> None:
    logs = sorted((folder / "logs of jobs").glob(f"{form} $HOME-*.out"))
    printed = "".join(log.read_text() for log in logs)
    lines = re.findall(r"(?m)^rank \S+ (.*?) (\[.*\])$", printed)
    assert sorted(ranks for ranks, _ in lines) == RANKS[form], printed
    assert {words for _, words in lines} == {str([*HOSTILE])}


def test_the_partitions_of_a_slurm_are_compared_with_what_the_platform_says(
    cluster: Env, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_CONF", cluster["SLURM_CONF"])
    partitions = open_catalog(ROOT / "tests/cluster").platform("two-nodes").slurm.partitions
    assert [*partition_differences(partitions, slurm.show_partitions())] == []
    other = [partitions[0]._replace(max_time=30)]
    shown = [*partition_differences(other, slurm.show_partitions())]
    assert shown == ["standard-g allows 1h, not 30m"]


def test_a_job_that_is_waited_for_prints_its_log_and_its_failure(
    image: Path, cluster: Env, tmp_path: Path
) -> None:
    options = (*CLUSTER, "--gpus", "1", "--wait", image, "--")
    where = {"cwd": tmp_path, "env": cluster}
    done = lumicontainer("job", *options, "sh", "-c", "echo here; exit 3", code=7, **where)
    assert "here" in done.stdout
    assert re.search(r"error: job \d+ failed", done.stderr), done.stderr
    assert "exit code 3" in done.stderr
    hint = re.search(r"hint: lumicontainer (postmortem \d+)", done.stderr)
    assert hint, done.stderr
    died = lumicontainer(*hint[1].split(), code=1, **where)
    assert "exit code" in died.stdout


RUNS = "echo started; sleep 600"
CONTINUES = f"[ -e saved ] || {{ touch saved; exit 3; }}; {RUNS}"
"""It fails once, so that a second job continues the first one."""


@pytest.mark.parametrize(
    ("options", "program", "answer", "words"),
    [
        ((), RUNS, b"y\n", "is cancelled"),
        ((), RUNS, b"\n", "goes on"),
        ((), RUNS, None, "goes on"),
        (("--until-done", "--checkpoint", "saved"), CONTINUES, b"y\n", "is cancelled"),
    ],
    ids=["yes", "no", "without a terminal", "the second job of a chain"],
)
def test_ctrl_c_asks_whether_the_job_is_cancelled(
    image: Path,
    cluster: Env,
    tmp_path: Path,
    options: tuple[str, ...],
    program: str,
    answer: bytes | None,
    words: str,
) -> None:
    screen, terminal = os.openpty()
    start = (image, "--", "sh", "-c", program)
    command = ("job", *CLUSTER, "--gpus", "1", *options, "--wait", *start)
    printed = tmp_path / "printed"
    with (
        printed.open("wb") as file,
        subprocess.Popen(
            [sys.executable, "-m", "lumicontainer", *map(str, command)],
            stdin=subprocess.DEVNULL if answer is None else terminal,
            stdout=file,
            stderr=file,
            cwd=tmp_path,
            env={**os.environ, **cluster},
        ) as waiting,
    ):
        wait_for(lambda: "started" in printed.read_text())
        waiting.send_signal(signal.SIGINT)
        if answer is not None:
            wait_for(lambda: "cancel job" in printed.read_text())
            os.write(screen, answer)
        assert waiting.wait(SECONDS) == 130
    os.close(screen)
    os.close(terminal)
    assert words in printed.read_text()
    running = jobs_of(cluster, tmp_path, form="%T")
    assert ("RUNNING" in running) == (words == "goes on")
    run(("scancel", "--quiet", *jobs_of(cluster, tmp_path)), env=cluster)
    wait_for(lambda: not jobs_of(cluster, tmp_path))


def test_what_slurm_would_never_run_is_refused_before_it_is_submitted(
    image: Path, cluster: Env, tmp_path: Path
) -> None:
    options = ("--partition", "nowhere", "--platform", "workstation", "--submit")
    done = lumicontainer("job", *options, image, "--", "true", env=cluster, cwd=tmp_path, code=2)
    assert "error: Slurm refuses the job" in done.stderr
    assert jobs_of(cluster, tmp_path) == []
