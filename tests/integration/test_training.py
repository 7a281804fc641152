"""Programs train on real data, on one machine and across the two nodes of a real Slurm."""

import re
from pathlib import Path

import pytest

from ..conftest import ROOT
from .conftest import LIMIT, lumicontainer, srun

WORKLOADS = Path("tests/workloads")
LINE = re.compile(r"(?m)^accuracy (0\.\d+|1\.0+) · (\d+) rank")


def reached(output: str, ranks: int) -> float:
    """Return the accuracy of a run's closing line, which must come once and of all ranks."""
    lines = LINE.findall(output)
    assert len(lines) == 1, output[-3000:]
    assert int(lines[0][1]) == ranks
    return float(lines[0][0])


def test_two_ranks_of_mpiexec_train_with_horovod_in_one_container(image: Path) -> None:
    program = WORKLOADS / "train_horovod.py"
    command = ("timeout", LIMIT, "mpiexec", "-n", 2, "lumi-entry", program)
    done = lumicontainer("run", image, "--", *command, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-3000:]
    assert reached(done.stdout, 2) >= 0.95


@pytest.mark.parametrize(
    ("program", "mpi"),
    [
        ("train_horovod.py", "pmi2"),
        *((f"train_{name}.py", "none") for name in ("fsdp", "lightning", "transformers")),
    ],
)
def test_four_ranks_on_two_nodes_of_slurm_train(
    files: Path, cluster: dict[str, str], program: str, mpi: str
) -> None:
    """The ranks of DDP, DeepSpeed and Accelerate are those of a launcher, below."""
    command = ("singularity", "exec", files, "lumi-entry", WORKLOADS / program)
    done = srun(cluster, *command, mpi=mpi)
    assert done.returncode == 0, done.stderr[-3000:]
    assert reached(done.stdout, 4) >= 0.95


@pytest.mark.parametrize(
    ("launcher", "program"),
    [
        (("torchrun",), "train_ddp.py"),
        (("accelerate",), "train_accelerate.py"),
        (("deepspeed", "--launcher-args", "--no_local_rank"), "train_deepspeed.py"),
    ],
    ids=["torchrun", "accelerate", "deepspeed"],
)
def test_one_task_on_each_of_two_nodes_starts_its_ranks_by_a_launcher(
    files: Path, cluster: dict[str, str], launcher: tuple[str, ...], program: str
) -> None:
    options = ("--nproc", 2, "--launcher", *launcher)
    command = ("singularity", "exec", files, "lumi-entry", *options, WORKLOADS / program)
    done = srun(cluster, *command, tasks=2)
    assert done.returncode == 0, done.stderr[-3000:]
    assert reached(done.stdout, 4) >= 0.95


def test_one_task_with_several_gpus_becomes_a_rank_for_each(
    image: Path, cluster: dict[str, str], tmp_path: Path
) -> None:
    program = tmp_path / "show.py"
    program.write_text("import os; print(*map(os.environ.get, ('RANK', 'WORLD_SIZE')), flush=True)")
    command = ("singularity", "exec", "--bind", tmp_path, image, "lumi-entry", program)
    done = srun(cluster, "--gpus-per-node=2", *command, tasks=2)
    assert sorted(done.stdout.splitlines()) == ["0 4", "1 4", "2 4", "3 4"], done.stderr
    assert done.stderr.count("torchrun starts 2 ranks a node") == 1


def test_tasks_whose_variables_the_engine_cleaned_away_are_refused(
    image: Path, cluster: dict[str, str]
) -> None:
    command = ("singularity", "exec", "--cleanenv", image, "lumi-entry", "--", "echo", "alone")
    done = srun(cluster, *command)
    assert (done.returncode, done.stdout) == (2, "")
    assert "error: srun started this task" in done.stderr
    assert "hint: remove --cleanenv" in done.stderr


def test_the_ranks_of_a_step_are_told_apart_and_meet_at_the_first_node(
    image: Path, cluster: dict[str, str]
) -> None:
    show = 'echo "$RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $NODE_RANK $MASTER_ADDR"'
    done = srun(cluster, "singularity", "exec", image, "lumi-entry", "--", "sh", "-c", show)
    assert sorted(done.stdout.splitlines()) == [
        "0 0 4 2 0 nid005001",
        "1 1 4 2 0 nid005001",
        "2 0 4 2 1 nid005001",
        "3 1 4 2 1 nid005001",
    ], done.stderr
