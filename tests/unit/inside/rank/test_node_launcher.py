"""One task a node becomes as many ranks as it has GPUs, by a launcher that all nodes agree with."""

import base64
import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from lumicontainer.inside.entry.arguments import parse
from lumicontainer.inside.entry.decide import Decision
from lumicontainer.inside.errors import LaunchError
from lumicontainer.inside.rank import node_launcher
from lumicontainer.inside.rank.context import Options

from .. import lumi_node, seen
from ..conftest import Entry, Env, write_module
from ..deciding import decide, refusal, settings
from ..lumi_node import BUSES, PLATFORM, Machine

GPUS = {"ROCR_VISIBLE_DEVICES": "0,1,2,3,4,5,6,7"}
SCRIPT = ("train.py",)


def one_task(node: int, **more: str) -> dict[str, str]:
    """Return the task on ``node`` of ``srun -N2 --ntasks-per-node=1 --gpus-per-node=8``."""
    return {
        **seen.srun(0),
        **seen.task(rank=node, local=0, node=node),
        **seen.step(0, "nid[005001-005002]", 2, "1(x2)", 2),
        **GPUS,
        "SLURM_CPUS_PER_TASK": "8",
        "SLURM_GPUS_ON_NODE": "8",
        "SLURM_NTASKS": "2",
        **more,
    }


def decided(env: Mapping[str, str], *program: str, **options: str | int) -> Decision:
    return decide(env, options=Options(**options), program=program or SCRIPT)


def started(env: Mapping[str, str], *program: str, **options: str | int) -> tuple[str, int]:
    start = decided(env, *program, **options).context.start
    return start.launcher, start.workers


def command(env: Mapping[str, str], **options: str) -> str:
    """Return what follows ``python3 supervise.py``, up to the words for each rank."""
    decision = decided(env, **options)
    made = node_launcher.command(decision.context, decision.settings, ["train.py", "--epochs", "3"])
    assert made[1].endswith("/supervise.py")
    assert made[made.index("--") + 2 :] == ["train.py", "--epochs", "3"]
    return " ".join(made[2 : made.index("--")])


def test_one_task_a_node_with_eight_gpus_starts_torchrun_and_says_so_once() -> None:
    decisions = [decided(one_task(node)) for node in (0, 1)]
    assert [d.context.start.launcher for d in decisions] == ["torchrun", "torchrun"]
    assert [d.context.start.workers for d in decisions] == [8, 8]
    assert [d.warned() for d in decisions] == [True, False]
    assert "8 ranks a node (--launcher direct starts one)" in decisions[0].warnings[0]


@pytest.mark.parametrize(
    ("env", "program"),
    [
        (seen.srun(0), SCRIPT),
        ({**seen.srun(0), **GPUS}, SCRIPT),
        ({**seen.srun(3), **GPUS}, SCRIPT),
        (one_task(0, ROCR_VISIBLE_DEVICES="3"), SCRIPT),
        (one_task(0), ("--", "bash")),
        (one_task(0), ("-m", "torch.distributed.run", "train.py")),
        (one_task(0), ("/opt/venv/bin/torchrun", "train.py")),
        (GPUS, SCRIPT),
        ({**seen.BATCH, **GPUS}, SCRIPT),
        ({**seen.mpiexec(0), **GPUS}, SCRIPT),
        ({**seen.TORCHRUN_IN_SRUN, **GPUS}, SCRIPT),
    ],
)
def test_otherwise_a_task_is_a_rank(env: Env, program: tuple[str, ...]) -> None:
    assert started(env, *program) == ("direct", 1)


@pytest.mark.parametrize("options", [{}, {"launcher": "deepspeed"}, {"launcher": "accelerate"}])
@pytest.mark.parametrize("left", [7, 1, 0])
def test_a_node_that_has_lost_a_gpu_does_not_start_fewer_ranks_than_the_others(
    tmp_path: Path, options: dict[str, str], left: int
) -> None:
    lumi_node.write(tmp_path, buses=BUSES[:left])
    settings = {"node": Machine(tmp_path), "platform": PLATFORM, "program": SCRIPT}
    with pytest.raises(LaunchError) as caught:
        decide(one_task(1), options=Options(**options), **settings)
    error = caught.value
    assert error.what == f"{8 - left} of the 8 GPUs that Slurm granted cannot be used"
    assert (error.code, error.local) == (3, True)
    assert "--nproc" in error.hint
    assert ("/dev/dri" in error.hint) == (left == 0)
    for own in (Options(nproc=left or 8), Options(launcher="direct")):
        assert decide(one_task(1), options=own, **settings).context.start.workers in (left or 8, 1)


@pytest.mark.parametrize(
    ("lists", "options", "ranks"),
    [
        pytest.param({"ROCR_VISIBLE_DEVICES": ""}, {}, ("direct", 1), id="a step without GPUs"),
        pytest.param(
            {"ROCR_VISIBLE_DEVICES": ""},
            {"launcher": "torchrun"},
            ("torchrun", 1),
            id="a step without GPUs, with a launcher",
        ),
        pytest.param(
            {"ROCR_VISIBLE_DEVICES": "", "SLURM_STEP_GPUS": "0,1,2,3,4,5,6,7"},
            {"launcher": "torchrun"},
            ("torchrun", 1),
            id="the user hides all GPUs on every node",
        ),
        pytest.param(
            {"ROCR_VISIBLE_DEVICES": "0", "SLURM_GPUS_ON_NODE": "1"},
            {"launcher": "torchrun"},
            ("torchrun", 1),
            id="one GPU, and so one rank on every node",
        ),
    ],
)
def test_a_node_without_gpus_that_starts_as_many_ranks_as_the_others_may_start(
    tmp_path: Path, lists: Env, options: dict[str, str], ranks: tuple[str, int]
) -> None:
    lumi_node.write(tmp_path, buses=())
    settings = {"node": Machine(tmp_path), "platform": PLATFORM, "program": SCRIPT}
    decision = decide(one_task(1, **lists), options=Options(**options), **settings)
    assert decision.context.start[::2] == ranks


def test_gpus_that_the_user_hides_are_not_lost(whole: Path) -> None:
    env = one_task(0, HIP_VISIBLE_DEVICES="0,1")
    settings = {"node": Machine(whole), "platform": PLATFORM, "program": SCRIPT}
    assert decide(env, **settings).context.start[::2] == ("torchrun", 2)


def test_direct_leaves_one_rank_a_node() -> None:
    decision = decided(one_task(1), launcher="direct")
    assert decision.changes()["WORLD_SIZE"] == "2"
    assert decision.warnings == []


@pytest.mark.slow
def test_the_launcher_and_the_number_of_ranks_can_be_set() -> None:
    assert started(one_task(0), nproc=4) == ("torchrun", 4)
    assert started(one_task(0), nproc=4, launcher="deepspeed") == ("deepspeed", 4)
    assert started({}, nproc=2) == ("torchrun", 2)
    assert started(one_task(0), "--", "./program", launcher="torchrun") == ("torchrun", 8)
    assert started({}, launcher="accelerate") == ("accelerate", 1)


def test_a_rank_that_a_launcher_started_starts_no_other() -> None:
    of_accelerate = {node_launcher.STARTED: "accelerate"}
    assert started(of_accelerate, launcher="accelerate") == ("direct", 1)
    assert started(seen.TORCHRUN_IN_SRUN, launcher="torchrun", nproc=2) == ("direct", 1)


@pytest.mark.parametrize("number", ["0", "x", "-1", "99999"])
def test_an_invalid_number_of_ranks_is_refused(number: str) -> None:
    with pytest.raises(LaunchError, match=f"--nproc: .* got '{number}'"):
        parse(["--nproc", number, "train.py"])


@pytest.mark.parametrize(
    ("env", "options", "what"),
    [
        (seen.srun(0), {"launcher": "torchrun"}, "needs one task a node"),
        (seen.srun(3), {"nproc": 2}, "needs one task a node"),
        (seen.mpiexec(1), {"launcher": "torchrun"}, "needs one task a node"),
        (seen.BY_HAND, {"launcher": "torchrun"}, "numbered by hand"),
        ({}, {"launcher": "direct", "nproc": 2}, "--nproc needs a launcher"),
    ],
)
def test_a_wrong_launcher_is_refused(env: Env, options: dict[str, str | int], what: str) -> None:
    assert what in refusal(env, options=Options(**options), program=SCRIPT).what


@pytest.mark.parametrize("node", [0, 1])
def test_the_agents_of_torchrun_meet_where_the_step_does(node: int) -> None:
    assert command(one_task(node)) == (
        f"torch.distributed.run --nnodes 2 --node-rank {node} --nproc-per-node 8 --rdzv-backend "
        "static --master-addr nid005001 --master-port 10001 --rdzv-id 1.0 --no-python"
    )


@pytest.mark.slow
def test_the_place_of_meeting_that_the_user_set_wins() -> None:
    made = command(one_task(1, MASTER_ADDR="10.0.0.1", MASTER_PORT="4711"))
    assert "--master-addr 10.0.0.1 --master-port 4711 " in made


def test_without_the_job_s_number_torchrun_gets_no_id() -> None:
    env = one_task(1, MASTER_PORT="4711")
    del env["SLURM_JOB_ID"]
    made = command(env)
    assert "--master-port 4711 " in made
    assert "--rdzv-id" not in made


def test_accelerate_counts_the_ranks_of_all_nodes() -> None:
    made = command(one_task(1), launcher="accelerate")
    assert "--num_machines 2 --machine_rank 1 --num_processes 16 " in made
    assert "--main_process_ip nid005001 --main_process_port 10001 " in made
    assert made.endswith(" --multi_gpu")


def test_a_configuration_of_accelerate_is_handed_on_and_decides_its_kind() -> None:
    made = command(one_task(0), launcher="accelerate", launcher_args="--config_file fsdp.yaml")
    assert made.endswith(" --config_file fsdp.yaml")
    assert "--multi_gpu" not in made


@pytest.mark.parametrize("node", [0, 1])
def test_deepspeed_knows_every_node_s_ranks(node: int) -> None:
    made = command(one_task(node), launcher="deepspeed")
    assert made.startswith("deepspeed.launcher.launch --world_info ")
    assert f"--node_rank {node} --master_addr nid005001 --master_port 10001 " in made
    world = json.loads(base64.urlsafe_b64decode(made.split()[2]))
    assert list(world.values()) == [list(range(8)), list(range(8))]


TWELVE = {"SLURM_GPUS": "12", "SLURM_JOB_NUM_NODES": "2"}


@pytest.mark.parametrize("total", ["12", "mi250:12"])
@pytest.mark.parametrize(("node", "here"), [(0, 8), (1, 4)])
def test_deepspeed_is_refused_where_nodes_have_other_numbers_of_gpus(
    total: str, node: int, here: int
) -> None:
    env = one_task(node, **{**TWELVE, "SLURM_GPUS": total, "SLURM_GPUS_ON_NODE": str(here)})
    error = refusal(env, options=Options(launcher="deepspeed"), program=SCRIPT)
    assert (
        error.what == f"this node has {here} of the job's 12 GPUs, and others have another number"
    )
    assert "--gpus-per-node=8" in error.hint
    assert "--nproc" in error.hint


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "options"),
    [
        pytest.param({"SLURM_GPUS": "16"}, {"launcher": "deepspeed"}, id="the same number"),
        pytest.param({"SLURM_GPUS": "x"}, {"launcher": "deepspeed"}, id="an unknown number"),
        pytest.param(
            {"SLURM_GPUS_PER_NODE": "8"}, {"launcher": "deepspeed"}, id="a number for each node"
        ),
        pytest.param({}, {"launcher": "deepspeed", "nproc": 8}, id="--nproc"),
        pytest.param({}, {"launcher": "torchrun"}, id="torchrun"),
        pytest.param(
            seen.step(0, "nid005001", 1, "1", 1), {"launcher": "deepspeed"}, id="a step on one node"
        ),
    ],
)
def test_deepspeed_starts_on_nodes_that_agree(more: Env, options: dict[str, str | int]) -> None:
    assert started(one_task(0, **{**TWELVE, **more}), **options) == (options["launcher"], 8)


@pytest.mark.slow
def test_the_ranks_of_a_launcher_share_the_task_s_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 128)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(112)))
    assert decided(one_task(0, SLURM_CPUS_PER_TASK="56")).changes() == {"OMP_NUM_THREADS": "7"}
    assert decided({}, nproc=4).changes() == {"OMP_NUM_THREADS": "28"}


def test_print_env_reports_how_the_ranks_come_to_be() -> None:
    decision = decided(one_task(0))
    line = "ranks: 8 a node, by torchrun (one task a node with 8 GPUs)"
    assert line in decision.as_text().splitlines()
    assert json.loads(decision.as_json())["ranks"]["here"] == 8


DEEPSPEED_RANK = {
    **one_task(1),
    "CROSS_RANK": "1",
    "CROSS_SIZE": "2",
    "LOCAL_RANK": "3",
    "LOCAL_SIZE": "8",
    "MASTER_ADDR": "nid005001",
    "MASTER_PORT": "10001",
    "RANK": "11",
    "WORLD_SIZE": "16",
}


def test_a_rank_of_deepspeed_is_recognised_within_a_task_of_slurm() -> None:
    decision = decided(DEEPSPEED_RANK, launcher="deepspeed")
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK")
    got = [settings(decision)[name].value for name in names]
    assert got == ["11", "3", "16", "8", "1"]
    assert decision.context.start.launcher == "direct"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "got"),
    [
        (["x.py", "--a"], "['--local_rank=3', '--a']\n"),
        (["-m", "x", "--a"], "['--local_rank=3', '--a']\n"),
        (["--", "printf", "%s.", "--a"], "--local_rank=3"),
        (["--launcher-args", "--no_local_rank", "x.py", "--a"], "['--a']\n"),
    ],
)
def test_a_script_of_deepspeed_gets_its_local_rank_unless_it_takes_none(
    entry: Entry, tmp_path: Path, words: list[str], got: str
) -> None:
    (tmp_path / "x.py").write_text("import sys; print(sys.argv[1:])")
    done = entry("--launcher", "deepspeed", *words, env=DEEPSPEED_RANK)
    assert done.stdout == got, done.stderr


@pytest.mark.slow
def test_variables_of_ranks_do_not_reach_a_launcher(entry: Entry, tmp_path: Path) -> None:
    """As here, where the batch script exported the numbers of all ranks."""
    shown = "import os; print({k: v for k, v in os.environ.items() if 'RANK' in k})"
    write_module(tmp_path, "torch/distributed/run.py", shown)
    (tmp_path / "train.py").touch()
    env = one_task(1, WORLD_SIZE="16", RANK="0", PYTHONPATH=str(tmp_path))
    done = entry("--launcher", "torchrun", "train.py", env=env)
    assert (done.stdout, done.returncode) == ("{}\n", 0), done.stderr


@pytest.mark.slow
def test_a_lone_rank_of_accelerate_sees_nothing_of_it(entry: Entry, tmp_path: Path) -> None:
    call = "raise SystemExit(subprocess.call(sys.argv[sys.argv.index('--') + 1 :]))"
    write_module(tmp_path, "accelerate/commands/launch.py", f"import subprocess, sys\n{call}\n")
    env = {"PYTHONPATH": str(tmp_path)}
    done = entry("--launcher", "accelerate", "--", "env", env=env)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("PYTHONPATH=") == 1
    assert node_launcher.STARTED not in done.stdout
