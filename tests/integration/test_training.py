"""Programs train on real data, on one machine and across the two nodes of a real Slurm."""

import os
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


def test_two_ranks_of_torchrun_train_on_one_machine(image: Path) -> None:
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 2)
    program = WORKLOADS / "train_ddp.py"
    done = lumicontainer("run", image, "--", "lumi-entry", *torchrun, program, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-3000:]
    assert reached(done.stdout, 2) >= 0.95


def test_one_process_trains_without_a_launcher(image: Path) -> None:
    program = ROOT / WORKLOADS / "train_ddp.py"
    done = lumicontainer("run", image, "--", "lumi-entry", program, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-3000:]
    assert reached(done.stdout, 1) >= 0.95


def test_two_ranks_of_mpiexec_train_with_horovod_in_one_container(image: Path) -> None:
    program = WORKLOADS / "train_horovod.py"
    command = ("timeout", LIMIT, "mpiexec", "-n", 2, "lumi-entry", program)
    done = lumicontainer("run", image, "--", *command, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-3000:]
    assert reached(done.stdout, 2) >= 0.95


@pytest.mark.parametrize(
    ("program", "mpi"),
    [("train_ddp.py", "none"), ("train_deepspeed.py", "none"), ("train_horovod.py", "pmi2")],
)
def test_four_ranks_on_two_nodes_of_slurm_train(
    image: Path, cluster: dict[str, str], program: str, mpi: str
) -> None:
    command = ("singularity", "exec", image, "lumi-entry", WORKLOADS / program)
    done = srun(cluster, *command, mpi=mpi)
    assert done.returncode == 0, done.stderr[-3000:]
    assert reached(done.stdout, 4) >= 0.95


@pytest.mark.parametrize("name", ["fsdp", "accelerate", "lightning", "transformers"])
def test_four_ranks_on_two_nodes_train_with_what_else_people_use(
    files: Path, cluster: dict[str, str], name: str
) -> None:
    command = ("singularity", "exec", files, "lumi-entry", WORKLOADS / f"train_{name}.py")
    done = srun(cluster, *command)
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


def test_the_exit_code_of_a_launcher_s_rank_passes_through(
    image: Path, cluster: dict[str, str]
) -> None:
    command = ("lumi-entry", "--launcher", "torchrun", "--nproc", 2, "--", "sh", "-c", "exit 7")
    done = srun(cluster, "singularity", "exec", image, *command, nodes=1, tasks=1)
    assert done.returncode == 7


def test_tasks_whose_variables_the_engine_cleaned_away_are_refused(
    image: Path, cluster: dict[str, str]
) -> None:
    command = ("singularity", "exec", "--cleanenv", image, "lumi-entry", "--", "echo", "alone")
    done = srun(cluster, *command)
    assert (done.returncode, done.stdout) == (2, "")
    assert "error: srun started this task" in done.stderr
    assert "hint: remove --cleanenv" in done.stderr


def test_of_four_ranks_on_two_nodes_one_tells_that_a_script_is_missing(
    image: Path, cluster: dict[str, str]
) -> None:
    done = srun(cluster, "singularity", "exec", image, "lumi-entry", WORKLOADS / "trian.py")
    assert done.returncode == 2
    assert done.stderr.count("no such script") == 1


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


def test_two_steps_that_share_a_node_meet_at_different_ports(
    image: Path, cluster: dict[str, str]
) -> None:
    command = ("singularity", "exec", image, "lumi-entry", "--", "sh", "-c", "echo $MASTER_PORT")
    ports = {srun(cluster, *command, nodes=1, tasks=1).stdout for _ in range(3)}
    assert len(ports) == 3


def test_the_exit_code_of_a_rank_passes_through(image: Path, cluster: dict[str, str]) -> None:
    command = ("singularity", "exec", image, "lumi-entry", "--", "sh", "-c", "exit 7")
    assert srun(cluster, *command, nodes=1, tasks=1).returncode == 7


def test_what_the_user_has_set_wins(image: Path, cluster: dict[str, str]) -> None:
    command = ("singularity", "exec", image, "lumi-entry", "--", "sh", "-c", "echo $MASTER_PORT")
    done = srun({**cluster, "MASTER_PORT": "12345"}, *command, nodes=1, tasks=1)
    assert done.stdout == "12345\n"
    inherited = {**os.environ, **cluster, "SINGULARITYENV_MASTER_PORT": "23456"}
    assert srun(inherited, *command, nodes=1, tasks=1).stdout == "23456\n"
