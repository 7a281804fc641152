"""Programs train on real data, on one machine and across the two nodes of a real Slurm."""

import re
import shlex
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from ..cli.conftest import refused
from ..conftest import ROOT
from .conftest import LIMIT, lumicontainer, pasted, srun
from .processes import Env

WORKLOADS = Path("tests/workloads")
LINE = re.compile(r"(?m)^accuracy (0\.\d+|1\.0+) · (\d+) rank")


def assert_trained(done: CompletedProcess[str], ranks: int = 2) -> None:
    """Assert that a run ended with one line of all ranks, and with a good accuracy."""
    assert done.returncode == 0, done.stderr[-3000:]
    lines = LINE.findall(done.stdout)
    assert [int(seen) for _, seen in lines] == [ranks], done.stdout[-3000:]
    assert float(lines[0][0]) >= 0.95


def test_a_program_trains_in_one_container_by_mpiexec(image: Path) -> None:
    command = ("timeout", LIMIT, "mpiexec", "-n", 2, "lumi-entry", WORKLOADS / "train_horovod.py")
    assert_trained(lumicontainer("run", image, "--", *command, cwd=ROOT))


@pytest.mark.parametrize("name", ["lightning", "transformers"])
def test_one_rank_on_each_of_two_nodes_trains(files: Path, cluster: Env, name: str) -> None:
    """FSDP, DeepSpeed and Accelerate are below; DDP's and Horovod's checks in test_verify_slurm."""
    command = ("singularity", "exec", files, "lumi-entry", WORKLOADS / f"train_{name}.py")
    assert_trained(srun(cluster, *command, tasks=2))


def test_two_ranks_of_horovod_on_two_nodes_train_with_tensorflow(
    tensorflow: Path, cluster: Env
) -> None:
    program = WORKLOADS / "train_tensorflow.py"
    command = ("singularity", "exec", tensorflow, "lumi-entry", program)
    assert_trained(srun(cluster, *command, tasks=2, mpi="pmi2"))


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
    assert_trained(srun(cluster, *command, tasks=2), ranks=4)


SIZE = "from mpi4py import MPI; print(MPI.COMM_WORLD.size)"


def test_ranks_of_mpi_meet_after_binds_and_are_warned_without_pmi(
    image: Path, cluster: Env
) -> None:
    """Without PMI both would be programs of one rank, and end with 0."""
    words = shlex.join(["lumi-entry", "--", "python3", "-c", SIZE])
    entry = f'singularity exec "${{binds[@]}}" {image} {words}'
    steps = f"srun -N2 -n2 {entry}; srun -N2 -n2 --mpi=none {entry}"
    setup = f'setup=$(lumicontainer binds {image}) || exit; eval "$setup"'
    done = pasted(f"{setup}; {steps}", env=cluster)
    assert done.stdout.split() == ["2", "2", "1", "1"], done.stderr
    assert done.stderr.count("start those with srun --mpi=pmi2") == 1


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
    refused(done, "error: srun started this task", "hint: remove --cleanenv")
