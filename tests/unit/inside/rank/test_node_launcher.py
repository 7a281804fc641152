"""One task a node becomes as many ranks as it has GPUs, by a launcher that all nodes agree with."""

import argparse
import base64
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lumicontainer.inside.entry.arguments import parse
from lumicontainer.inside.entry.decide import Decision
from lumicontainer.inside.errors import LaunchError
from lumicontainer.inside.rank import node_launcher
from lumicontainer.inside.rank.context import Options

from .. import seen
from ..conftest import PATH, SOURCE, Entry
from ..deciding import decide

GPUS = "0,1,2,3,4,5,6,7"


def one_task(node: int, **more: str) -> dict[str, str]:
    """Return the task on ``node`` of ``srun -N2 --ntasks-per-node=1 --gpus-per-node=8``."""
    return {
        **seen.srun(0),
        "ROCR_VISIBLE_DEVICES": GPUS,
        "SLURM_CPUS_PER_TASK": "8",
        "SLURM_GPUS_ON_NODE": "8",
        "SLURM_LOCALID": "0",
        "SLURM_NODEID": str(node),
        "SLURM_NTASKS": "2",
        "SLURM_PROCID": str(node),
        "SLURM_STEP_NUM_TASKS": "2",
        "SLURM_STEP_TASKS_PER_NODE": "1(x2)",
        **more,
    }


def decided(env: dict[str, str], *program: str, **options: str) -> Decision:
    return decide(env, options=Options(**options), program=program or ("train.py",))


def started(env: dict[str, str], *program: str, **options: str) -> tuple[str, int]:
    start = decided(env, *program, **options).context.start
    return start.launcher, start.workers


def words(env: dict[str, str], **options: str) -> list[str]:
    """Return what follows ``python3 supervise.py``."""
    decision = decided(env, **options)
    made = node_launcher.command(decision.context, decision.settings, ["train.py", "--epochs", "3"])
    assert made[1].endswith("/supervise.py")
    assert made[made.index("--") + 2 :] == ["train.py", "--epochs", "3"]
    return made[2 : made.index("--")]


def flags(made: list[str]) -> dict[str, str]:
    """Return the options of a launcher with their values."""
    parser = argparse.ArgumentParser()
    names = [word for word in made if word.startswith("--")]
    for name, after in zip(names, [*(made[made.index(name) + 1 :] for name in names)], strict=True):
        switch = not after or after[0].startswith("--")
        parser.add_argument(name, action="store_true" if switch else "store")
    return vars(parser.parse_args(made[1:]))


def refusal(env: dict[str, str], **options: str) -> LaunchError:
    with pytest.raises(LaunchError) as caught:
        decided(env, **options)
    assert all((caught.value.what, caught.value.where, caught.value.why, caught.value.hint))
    return caught.value


def test_one_task_a_node_with_eight_gpus_starts_torchrun_and_says_so_once() -> None:
    decisions = [decided(one_task(node)) for node in (0, 1)]
    assert [d.context.start.launcher for d in decisions] == ["torchrun", "torchrun"]
    assert [d.context.start.workers for d in decisions] == [8, 8]
    assert [d.warned() for d in decisions] == [True, False]
    assert "8 ranks a node (--launcher direct starts one)" in decisions[0].warnings[0]


@pytest.mark.parametrize(
    ("env", "program"),
    [
        (seen.srun(0), ("train.py",)),
        ({**seen.srun(0), "ROCR_VISIBLE_DEVICES": GPUS}, ("train.py",)),
        ({**seen.srun(3), "ROCR_VISIBLE_DEVICES": GPUS}, ("train.py",)),
        (one_task(0, ROCR_VISIBLE_DEVICES="3"), ("train.py",)),
        (one_task(0), ("--", "bash")),
        (one_task(0), ("-m", "torch.distributed.run", "train.py")),
        (one_task(0), ("/opt/venv/bin/torchrun", "train.py")),
        ({"ROCR_VISIBLE_DEVICES": GPUS}, ("train.py",)),
        ({**seen.BATCH, "ROCR_VISIBLE_DEVICES": GPUS}, ("train.py",)),
        ({**seen.mpiexec(0), "ROCR_VISIBLE_DEVICES": GPUS}, ("train.py",)),
        ({**seen.TORCHRUN_IN_SRUN, "ROCR_VISIBLE_DEVICES": GPUS}, ("train.py",)),
    ],
)
def test_otherwise_a_task_is_a_rank(env: dict[str, str], program: tuple[str, ...]) -> None:
    assert started(env, *program) == ("direct", 1)


def test_direct_leaves_one_rank_a_node() -> None:
    decision = decided(one_task(1), launcher="direct")
    assert decision.changes()["WORLD_SIZE"] == "2"
    assert decision.warnings == []


def test_the_number_of_ranks_can_be_set() -> None:
    assert started(one_task(0), nproc=4) == ("torchrun", 4)
    assert started(one_task(0), nproc=4, launcher="deepspeed") == ("deepspeed", 4)
    assert started({}, nproc=2) == ("torchrun", 2)
    assert started(one_task(0), "--", "./program", launcher="torchrun") == ("torchrun", 8)
    assert started({}, launcher="torchrun") == ("torchrun", 1)


@pytest.mark.parametrize("number", ["0", "x", "-1", "99999"])
def test_an_invalid_number_of_ranks_is_refused(number: str) -> None:
    with pytest.raises(LaunchError, match=f"--nproc: .* got '{number}'"):
        parse(["--nproc", number, "train.py"])


@pytest.mark.parametrize("env", [seen.srun(0), seen.srun(3), seen.mpiexec(1)])
def test_a_launcher_for_each_of_several_tasks_a_node_is_refused(env: dict[str, str]) -> None:
    assert "needs one task a node" in refusal(env, launcher="torchrun").what
    assert "needs one task a node" in refusal(env, nproc=2).what


def test_a_launcher_for_ranks_numbered_by_hand_is_refused() -> None:
    env = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "n1"}
    assert "numbered by hand" in refusal(env, launcher="torchrun").what


def test_a_number_of_ranks_without_a_launcher_is_refused() -> None:
    assert "--nproc needs a launcher" in refusal({}, launcher="direct", nproc=2).what


@pytest.mark.parametrize("node", [0, 1])
def test_the_agents_of_torchrun_meet_where_the_step_does(node: int) -> None:
    made = words(one_task(node))
    assert made[0] == "torch.distributed.run"
    assert flags(made) == {
        "nnodes": "2",
        "node_rank": str(node),
        "nproc_per_node": "8",
        "rdzv_backend": "static",
        "master_addr": "nid005001",
        "master_port": "10001",
        "rdzv_id": "1.0",
        "no_python": True,
    }


def test_the_place_of_meeting_that_the_user_set_wins() -> None:
    got = flags(words(one_task(1, MASTER_ADDR="10.0.0.1", MASTER_PORT="4711")))
    assert (got["master_addr"], got["master_port"]) == ("10.0.0.1", "4711")


def test_accelerate_counts_the_ranks_of_all_nodes() -> None:
    got = flags(words(one_task(1), launcher="accelerate"))
    assert (got["num_machines"], got["machine_rank"], got["num_processes"]) == ("2", "1", "16")
    assert (got["main_process_ip"], got["main_process_port"]) == ("nid005001", "10001")
    assert got["multi_gpu"]


def test_a_configuration_of_accelerate_is_handed_on_and_decides_its_kind() -> None:
    made = words(one_task(0), launcher="accelerate", launcher_args="--config_file fsdp.yaml")
    assert made[-2:] == ["--config_file", "fsdp.yaml"]
    assert "--multi_gpu" not in made


@pytest.mark.parametrize("node", [0, 1])
def test_deepspeed_knows_every_node_s_ranks(node: int) -> None:
    made = words(one_task(node), launcher="deepspeed")
    got = flags(made)
    assert made[0] == "deepspeed.launcher.launch"
    world = json.loads(base64.urlsafe_b64decode(got["world_info"]))
    assert list(world.values()) == [list(range(8)), list(range(8))]
    assert (got["node_rank"], got["master_addr"]) == (str(node), "nid005001")


def test_the_ranks_of_a_launcher_share_the_task_s_processors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 128)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(112)))
    assert decided(one_task(0, SLURM_CPUS_PER_TASK="56")).changes() == {"OMP_NUM_THREADS": "7"}
    assert decided({}, nproc=4).changes() == {"OMP_NUM_THREADS": "28"}


def test_variables_of_ranks_do_not_reach_a_launcher(entry: Entry, tmp_path: Path) -> None:
    """As here, where the batch script exported the numbers of all ranks."""
    _launcher(tmp_path, "import os; print({k: v for k, v in os.environ.items() if 'RANK' in k})")
    (tmp_path / "train.py").touch()
    env = one_task(1, WORLD_SIZE="16", RANK="0", PYTHONPATH=str(tmp_path))
    done = entry("--launcher", "torchrun", "train.py", env=env)
    assert (done.stdout, done.returncode) == ("{}\n", 0), done.stderr


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
    got = {setting.name: setting.value for setting in decision.settings}
    assert (got["RANK"], got["LOCAL_RANK"], got["WORLD_SIZE"]) == ("11", "3", "16")
    assert (got["LOCAL_WORLD_SIZE"], got["NODE_RANK"]) == ("8", "1")
    assert decision.context.start.launcher == "direct"


@pytest.mark.parametrize(
    ("program", "got"),
    [
        (["x.py", "--a"], "['--local_rank=3', '--a']\n"),
        (["-m", "x", "--a"], "['--local_rank=3', '--a']\n"),
        (["--", "printf", "%s.", "--a"], "--local_rank=3"),
    ],
)
def test_a_script_of_deepspeed_gets_its_local_rank(
    entry: Entry, tmp_path: Path, program: list[str], got: str
) -> None:
    (tmp_path / "x.py").write_text("import sys; print(sys.argv[1:])")
    done = entry("--launcher", "deepspeed", *program, env=DEEPSPEED_RANK)
    assert done.stdout == got, done.stderr


def test_a_script_of_deepspeed_that_takes_no_local_rank_gets_none(entry: Entry) -> None:
    options = ("--launcher", "deepspeed", "--launcher-args", "--no_local_rank")
    assert entry(*options, "--", "printf", "%s.", "--a", env=DEEPSPEED_RANK).stdout == "--a."


def test_a_rank_of_torchrun_starts_no_torchrun(entry: Entry) -> None:
    command = ("--launcher", "torchrun", "--nproc", "2", "--", "sh", "-c", "echo $RANK")
    assert entry(*command, env=seen.TORCHRUN_IN_SRUN).stdout == "3\n"


def test_print_env_reports_how_the_ranks_come_to_be(entry: Entry) -> None:
    done = entry("--print-env", "train.py", env=one_task(0))
    assert "\nranks: 8 a node, by torchrun (one task a node with 8 GPUs)\n" in done.stdout
    record = json.loads(entry("--print-env", "--json", "train.py", env=one_task(0)).stdout)
    assert record["ranks"]["here"] == 8


def _launcher(folder: Path, text: str) -> None:
    """Write a launcher of the test's own where the real one's module would be."""
    package = folder / "torch" / "distributed"
    package.mkdir(parents=True)
    (package / "run.py").write_text(text)


TWO_RANKS = """
import os, subprocess, sys
rank = (
    "import signal, sys; signal.signal(signal.SIGUSR1, lambda *_: sys.exit(0));"
    "print('ready', flush=True); signal.pause()"
)
helper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
ranks = [
    subprocess.Popen([sys.executable, "-c", rank], env={**os.environ, "LOCAL_RANK": str(local)})
    for local in (0, 1)
]
print([one.wait() for one in ranks], helper.poll(), flush=True)
helper.kill()
"""


def supervised(folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, SOURCE / "launch/supervise.py", "torch.distributed.run", "a", "--b"],
        env={"PATH": PATH, "PYTHONPATH": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_signal_to_the_launcher_reaches_each_rank_and_nothing_else(tmp_path: Path) -> None:
    _launcher(tmp_path, TWO_RANKS)
    with supervised(tmp_path) as program:
        assert program.stdout is not None
        assert [program.stdout.readline() for _ in range(2)] == ["ready\n", "ready\n"]
        program.send_signal(signal.SIGUSR1)
        assert program.stdout.read() == "[0, 0] None\n"


FAILING = """
class ChildFailedError(Exception):
    def get_first_failure(self):
        return 3, type("Failure", (), {{"exitcode": {code}}})
raise ChildFailedError("rank 3 failed")
"""
LONE = """
class CalledProcessError(Exception):
    returncode = {code}
raise CalledProcessError("rank 3 failed")
"""


SIGNALLED = """
class SignalException(Exception):
    sigval = {code}
raise SignalException("rank 3 failed")
"""


@pytest.mark.parametrize(
    ("text", "code", "seen_code"),
    [
        *((text, 7, 7) for text in (FAILING, LONE, "raise SystemExit({code})")),
        *((text, -9, 137) for text in (FAILING, LONE, "raise SystemExit({code})")),
        (SIGNALLED, 9, 137),
    ],
)
def test_the_exit_code_of_the_rank_that_failed_first_passes(
    tmp_path: Path, text: str, code: int, seen_code: int
) -> None:
    _launcher(tmp_path, text.format(code=code))
    with supervised(tmp_path) as program:
        _, stderr = program.communicate()
    printed = "" if "SystemExit" in text else "rank 3 failed\n"
    assert (program.returncode, stderr) == (seen_code, printed)


def test_a_lone_rank_that_a_launcher_started_starts_no_other() -> None:
    assert started({}, launcher="accelerate") == ("accelerate", 1)
    assert started({node_launcher.STARTED: "accelerate"}, launcher="accelerate") == ("direct", 1)


def test_a_lone_rank_of_accelerate_runs_once_and_sees_nothing_of_it(
    entry: Entry, tmp_path: Path
) -> None:
    package = tmp_path / "accelerate/commands"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").touch()
    call = "raise SystemExit(subprocess.call(sys.argv[sys.argv.index('--') + 1 :]))"
    (package / "launch.py").write_text(f"import subprocess, sys\n{call}\n")
    env = {"PYTHONPATH": str(tmp_path)}
    done = entry("--launcher", "accelerate", "--", "env", env=env)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("PYTHONPATH=") == 1
    assert node_launcher.STARTED not in done.stdout


def test_a_launcher_gets_its_words_and_does_not_see_our_modules(tmp_path: Path) -> None:
    _launcher(tmp_path, "import sys; print(sys.argv[1:]); import hostlist")
    with supervised(tmp_path) as program:
        stdout, stderr = program.communicate()
    assert stdout == "['a', '--b']\n"
    assert "No module named 'hostlist'" in stderr


def test_what_a_launcher_leaves_in_its_temporary_folder_goes(tmp_path: Path) -> None:
    _launcher(
        tmp_path, "import tempfile; print(tempfile.mkdtemp(), flush=True); raise SystemExit(7)"
    )
    with supervised(tmp_path) as program:
        stdout, _ = program.communicate()
    assert program.returncode == 7
    assert not Path(stdout.strip()).exists()
    assert not Path(stdout.strip()).parent.exists()


def test_an_image_without_the_launcher_is_reported(tmp_path: Path) -> None:
    with supervised(tmp_path) as program:
        _, stderr = program.communicate()
    assert program.returncode == 2
    assert stderr.startswith("error: package not found: torch")
