"""Programs train on real data, on one machine and across the two nodes of a real Slurm."""

import re
from pathlib import Path

import pytest

from ..conftest import ROOT
from .conftest import LIMIT, lumicontainer, srun

Env = dict[str, str]
WORKLOADS = Path("tests/workloads")
LINE = re.compile(r"(?m)^accuracy (0\.\d+|1\.0+) · (\d+) rank")


def reached(output: str, ranks: int) -> float:
    """Return the accuracy of a run's closing line, which must come once and of all ranks."""
    lines = LINE.findall(output)
    assert len(lines) == 1, output[-3000:]
    assert int(lines[0][1]) == ranks
    return float(lines[0][0])


def test_a_program_trains_in_one_container_by_mpiexec(image: Path) -> None:
    command = ("timeout", LIMIT, "mpiexec", "-n", 2, "lumi-entry", WORKLOADS / "train_horovod.py")
    done = lumicontainer("run", image, "--", *command, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-3000:]
    assert reached(done.stdout, 2) >= 0.95


@pytest.mark.parametrize("name", ["lightning", "transformers"])
def test_one_rank_on_each_of_two_nodes_trains(files: Path, cluster: Env, name: str) -> None:
    """FSDP, DeepSpeed and Accelerate are below; DDP's and Horovod's checks in test_verify_slurm."""
    command = ("singularity", "exec", files, "lumi-entry", WORKLOADS / f"train_{name}.py")
    done = srun(cluster, *command, tasks=2)
    assert done.returncode == 0, done.stderr[-3000:]
    assert reached(done.stdout, 2) >= 0.95


def test_two_ranks_of_horovod_on_two_nodes_train_with_tensorflow(
    tensorflow: Path, cluster: Env
) -> None:
    program = WORKLOADS / "train_tensorflow.py"
    command = ("singularity", "exec", tensorflow, "lumi-entry", program)
    done = srun(cluster, *command, tasks=2, mpi="pmi2")
    assert done.returncode == 0, done.stderr[-3000:]
    assert reached(done.stdout, 2) >= 0.95


@pytest.mark.parametrize(
    ("launcher", "program"),
    [
        (("torchrun",), "train_fsdp.py"),
        (("accelerate",), "train_accelerate.py"),
        (("deepspeed", "--launcher-args", "--no_local_rank"), "train_deepspeed.py"),
    ],
    ids=["torchrun", "accelerate", "deepspeed"],
)
def test_one_task_on_each_of_two_nodes_starts_its_ranks_by_a_launcher(
    files: Path, cluster: Env, launcher: tuple[str, ...], program: str
) -> None:
    options = ("--nproc", 2, "--launcher", *launcher)
    command = ("singularity", "exec", files, "lumi-entry", *options, WORKLOADS / program)
    done = srun(cluster, *command, tasks=2)
    assert done.returncode == 0, done.stderr[-3000:]
    assert reached(done.stdout, 4) >= 0.95


def test_one_task_becomes_a_rank_for_each_gpu(image: Path, cluster: Env, tmp_path: Path) -> None:
    program = tmp_path / "show.py"
    # One call of write: the ranks share the file, and print writes each word by itself.
    words = "'{RANK} {WORLD_SIZE}'.format(**os.environ)"
    program.write_text(f"import os; os.write(1, {words}.encode() + os.linesep.encode())")
    command = ("singularity", "exec", "--bind", tmp_path, image, "lumi-entry", program)
    done = srun(cluster, "--gpus-per-node=2", *command, tasks=2)
    assert sorted(done.stdout.splitlines()) == ["0 4", "1 4", "2 4", "3 4"], done.stderr
    assert done.stderr.count("torchrun starts 2 ranks a node") == 1


def test_tasks_without_the_variables_of_slurm_are_refused(image: Path, cluster: Env) -> None:
    command = ("singularity", "exec", "--cleanenv", image, "lumi-entry", "--", "echo", "alone")
    done = srun(cluster, *command)
    assert (done.returncode, done.stdout) == (2, "")
    assert "error: srun started this task" in done.stderr
    assert "hint: remove --cleanenv" in done.stderr
