"""The cause of deaths under a real Slurm without slurmdbd: srun, torchrun and scontrol say it."""

import json
from pathlib import Path
from typing import Any

from .conftest import lumicontainer, run
from .processes import Env, await_end, submit, wait_for

PROGRAM = """
import os, signal, sys
from datetime import timedelta
import torch
import torch.distributed as dist
dist.init_process_group("gloo", timeout=timedelta(seconds=120))
dist.barrier()
if os.environ["RANK"] == sys.argv[1]:
    os.kill(os.getpid(), signal.SIGKILL) if sys.argv[2] == "kill" else os._exit(5)
dist.all_reduce(torch.ones(4))
"""
SCRIPT = """#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node={tasks} --time=5 --output=slurm-%j.out
srun --kill-on-bad-exit=1 {command}
"""
ENTRY = "singularity -s exec --userns {image} lumi-entry --log-dir logs"


def verdict(*subjects: object, cwd: Path, env: Env, code: int) -> Any:
    done = lumicontainer("postmortem", *subjects, "--json", cwd=cwd, env=env, code=code)
    return json.loads(done.stdout)


def submit_failing(folder: Path, env: Env, command: str, *, tasks: int) -> str:
    """Submit a job that fails; return its number."""
    (folder / "train.py").write_text(PROGRAM)
    return submit(SCRIPT.format(tasks=tasks, command=command), folder, env)


def test_the_rank_that_was_killed_is_named_with_its_node(
    image: Path, cluster: Env, tmp_path: Path
) -> None:
    entry = ENTRY.format(image=image)
    number = submit_failing(tmp_path, cluster, f"{entry} train.py 2 kill", tasks=2)
    await_end(number, cluster)
    seen = verdict(number, "logs", f"slurm-{number}.out", cwd=tmp_path, env=cluster, code=1)
    assert (seen["signature"], seen["ranks"], seen["nodes"]) == ("task-killed", [2], ["nid005002"])
    assert seen["read"]["state"] == "FAILED"
    assert verdict(number, cwd=tmp_path, env=cluster, code=1)["ranks"] == [2]


def test_a_rank_that_torchrun_started_is_named(image: Path, cluster: Env, tmp_path: Path) -> None:
    entry = f"{ENTRY.format(image=image)} --launcher torchrun --nproc 2"
    number = submit_failing(tmp_path, cluster, f"{entry} train.py 3 exit", tasks=1)
    await_end(number, cluster)
    seen = verdict(number, "logs", cwd=tmp_path, env=cluster, code=1)
    assert (seen["ranks"], seen["nodes"]) == ([3], ["nid005002"]), seen
    names = {path.name for path in (tmp_path / "logs").glob("*.ranks")}
    assert names == {f"{number}.0-node-{node}.ranks" for node in ("nid005001", "nid005002")}


def test_a_job_that_somebody_cancelled_blames_no_rank(cluster: Env, tmp_path: Path) -> None:
    number = submit_failing(tmp_path, cluster, "sh -c 'echo here; sleep 600'", tasks=1)
    log = tmp_path / f"slurm-{number}.out"
    wait_for(lambda: log.exists() and "here" in log.read_text())
    assert run(["scancel", number], env=cluster).returncode == 0
    show = ["scontrol", "--oneliner", "show", "job", number]
    wait_for(lambda: "JobState=CANCELLED" in run(show, env=cluster).stdout)
    seen = verdict(number, cwd=tmp_path, env=cluster, code=1)
    assert (seen["signature"], seen["ranks"]) == ("cancelled", [])
