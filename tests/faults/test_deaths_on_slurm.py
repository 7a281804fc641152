"""Jobs die as Slurm lets them die: of memory, time, lost nodes, in arrays, and after a restart.

The jobs run side by side on nodes that this file has for itself. There is no slurmdbd.
"""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ..conftest import ROOT
from ..integration.conftest import lumicontainer
from ..integration.processes import Env, wait_for
from ..namespaces import as_root
from ..programs import run
from .nodes import Nodes, cluster_of

NUMBER = "2"
NODES = ("nid005021", "nid005022")
SETTINGS = (
    "TaskPlugin=task/affinity,task/cgroup",
    "SelectTypeParameters=CR_CPU_Memory",
    "DefMemPerCPU=60000",
)
"""Slurm bounds the memory of jobs, as on LUMI."""
PROGRAM = """
import os, sys
import torch
import torch.distributed as dist

class Large(torch.utils.data.Dataset):
    def __len__(self):
        return 1
    def __getitem__(self, index):
        return fill()

def fill():
    return [b"x" * (1 << 20) for _ in range(4000)]

dist.init_process_group("gloo")
dist.barrier()
if os.environ["RANK"] == sys.argv[2]:
    fill() if sys.argv[1] == "rank" else list(torch.utils.data.DataLoader(Large(), num_workers=1))
dist.all_reduce(torch.ones(4))
"""
WAITS = "sh -c 'echo here; sleep 600'"
FAILS = """python3 -c 'raise ValueError("expected 8 columns, got 7")'"""
AGAIN = f"if [ $SLURM_RESTART_COUNT ]; then {FAILS}; else {WAITS}; fi"
ODD = f"if [ $SLURM_ARRAY_TASK_ID = 3 ]; then {FAILS}; fi"


class Job(NamedTuple):
    """A job that was sent."""

    number: str
    folder: Path
    env: Env

    def state(self, name: str = "") -> str:
        shown = run(["scontrol", "show", "job", name or self.number], env=self.env).stdout
        return ",".join(re.findall(r"JobState=(\w+)", shown))

    def wait_for(self, *states: str) -> None:
        wait_for(lambda: set(self.state().split(",")) <= {*states})

    def prints(self, text: str) -> bool:
        outputs = self.folder.glob("slurm-*.out")
        return any(text in path.read_text(errors="replace") for path in outputs)

    def verdict(self, *subjects: object, code: int = 1) -> Any:
        words = ("postmortem", *(subjects or (self.number,)), "--json")
        return json.loads(lumicontainer(*words, cwd=self.folder, env=self.env, code=code).stdout)


Send = Callable[..., Job]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Env]:
    with cluster_of(NUMBER, *SETTINGS) as env:
        yield {**env, "APPTAINER_USERNS": "1", "SINGULARITY_USERNS": "1"}


@pytest.fixture(scope="module")
def send(cluster: Env, tmp_path_factory: pytest.TempPathFactory) -> Send:
    """Send a job with a command for each task."""

    def send_job(command: str, *options: str, shell: str = "{}") -> Job:
        folder = tmp_path_factory.mktemp("job")
        (folder / "train.py").write_text(PROGRAM)
        script = f"#!/bin/bash\n{shell.format(command)}\n"
        words = ["sbatch", "--parsable", "--time=10", "--cpus-per-task=1", *options]
        done = run(words, cwd=folder, env=cluster, stdin=script)
        assert done.returncode == 0, done.stderr
        return Job(done.stdout.strip(), folder, cluster)

    return send_job


def start_ranks(sif: Path, *words: str) -> str:
    entry = f"singularity -s exec --userns {sif} lumi-entry --log-dir logs"
    return f"srun {entry} train.py {' '.join(words)}"


def nodes_of(cluster: Env) -> Nodes:
    return Nodes(Path(cluster["SLURM_CONF"]).parent)


def wait_until_idle(node: str, cluster: Env) -> None:
    words = ["sinfo", "--responding", "--states=idle", "--Node"]
    wait_for(lambda: node in run(words, env=cluster).stdout)


@pytest.fixture
def bounded(cluster: Env) -> None:
    settings = Path(cluster["SLURM_CONF"]).with_name("cgroup.conf")
    assert "ConstrainRAMSpace=yes" in settings.read_text(), "the kernel bounds no memory of jobs"


@pytest.mark.usefixtures("bounded")
def test_a_rank_that_a_control_group_killed_is_named_with_its_node(send: Send, sif: Path) -> None:
    job = send(start_ranks(sif, "rank", "2"), "--nodes=2", "--ntasks-per-node=2", "--mem=1500")
    job.wait_for("FAILED", "OUT_OF_MEMORY")
    seen = job.verdict()
    assert (seen["signature"], seen["ranks"]) == ("slurm-task-out-of-memory", [2])
    assert seen["nodes"] == [NODES[1]]


@pytest.mark.usefixtures("bounded")
def test_a_rank_whose_worker_a_control_group_killed_is_named(send: Send, sif: Path) -> None:
    job = send(start_ranks(sif, "worker", "1"), "--ntasks=2", "--mem=1500")
    job.wait_for("FAILED", "OUT_OF_MEMORY")
    seen = job.verdict()
    assert (seen["signature"], seen["ranks"], seen["nodes"]) == ("worker-killed", [1], [NODES[0]])
    assert any("Out Of Memory" in words for words in seen["evidence"]), seen


def test_each_job_of_an_array_has_its_own_cause(send: Send) -> None:
    job = send(ODD, "--array=3-4")
    job.wait_for("FAILED", "COMPLETED")
    done = lumicontainer("postmortem", job.number, cwd=job.folder, env=job.env, code=2)
    assert f"{job.number}_3 FAILED" in done.stderr
    assert f"lumicontainer postmortem {job.number}_3" in done.stderr
    seen = job.verdict(f"{job.number}_3")
    assert (seen["signature"], seen["read"]["state"]) == ("exception", "FAILED")
    assert job.verdict(f"{job.number}_4", code=0)["read"]["state"] == "COMPLETED"


def test_after_a_restart_the_last_run_is_the_one_that_died(send: Send) -> None:
    job = send(AGAIN, "--open-mode=append")
    wait_for(lambda: job.prints("here"))
    run([*as_root(), "scontrol", "requeue", job.number], env=job.env)
    job.wait_for("PENDING")
    run([*as_root(), "scontrol", "update", f"JobId={job.number}", "StartTime=now"], env=job.env)
    job.wait_for("FAILED")
    assert job.prints("DUE TO JOB REQUEUE")
    assert job.verdict()["signature"] == "exception"


def test_a_job_whose_time_is_over_blames_no_rank(send: Send) -> None:
    job = send(f"srun {WAITS}", "--ntasks=2")
    wait_for(lambda: job.prints("here"))
    run([*as_root(), "scontrol", "update", f"JobId={job.number}", "TimeLimit=0"], env=job.env)
    job.wait_for("TIMEOUT")
    seen = job.verdict()
    assert (seen["signature"], seen["ranks"]) == ("time-limit", [])
    # Its output alone says the same.
    assert job.verdict(f"slurm-{job.number}.out")["signature"] == "time-limit"


CHAIN = ("--until-done", "--checkpoint", "saved", "--output", "slurm-%j.out", "--submit")
CONTINUES = f"if [ $SLURM_RESTART_COUNT ]; then echo again; else touch saved; {WAITS}; fi"


def test_a_job_that_sends_itself_again_goes_on_after_its_node_died(
    cluster: Env, sif: Path, tmp_path: Path
) -> None:
    platform = ("--recipes", ROOT / "tests/cluster", "--platform", "two-nodes", "--gpus", "1")
    words = ("job", *platform, "--time", "10m", *CHAIN, sif, "--", "sh", "-c", CONTINUES)
    done = lumicontainer(*words, cwd=tmp_path, env=cluster, code=0)
    job, nodes = Job(done.stdout.strip(), tmp_path, cluster), nodes_of(cluster)
    wait_for(lambda: job.prints("here"))
    node = run(["squeue", "--noheader", "--format=%N", "--jobs", job.number], env=cluster).stdout
    nodes.crash(node.strip())
    job.wait_for("PENDING")
    run([*as_root(), "scontrol", "update", f"JobId={job.number}", "StartTime=now"], env=job.env)
    job.wait_for("COMPLETED")
    nodes.start(node.strip())
    wait_until_idle(node.strip(), cluster)
    assert job.prints("again\nuntil-done: the program is done")


@pytest.mark.parametrize("end", ["lose", "crash"])
def test_a_node_that_is_lost_is_named(send: Send, cluster: Env, end: str) -> None:
    nodes = nodes_of(cluster)
    job = send(f"srun {WAITS}", "--nodes=2", "--ntasks=2", "--no-requeue")
    wait_for(lambda: job.prints("here\nhere"))
    getattr(nodes, end)(NODES[1])
    job.wait_for("NODE_FAIL")
    seen = job.verdict()
    nodes.start(NODES[1])
    wait_until_idle(NODES[1], cluster)
    assert (seen["signature"], seen["nodes"]) == ("node-failure", [NODES[1]])
