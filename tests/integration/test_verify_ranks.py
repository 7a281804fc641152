"""lumi-verify under a real srun: ranks of two nodes meet, one reports, and nothing is left."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from .conftest import run
from .processes import SECONDS, Env, job_of, name_of, processes_of, started, wait_for

HOME = "/opt/lumicontainer"
RANK = "import os, sys, time\nrank = int(os.environ['RANK'])\n"
SHOW = RANK + "print(rank, os.uname().nodename)\n"
HANGS = RANK + ("open(f'/mnt/here-{rank}', 'w').close()\ntime.sleep(1000)\n")
KILLED = RANK + (
    "if rank == 3:\n"
    "    stat = open(f'/proc/{os.getppid()}/stat').read().rpartition(')')[2].split()\n"
    "    os.kill(int(stat[1]), 9)\n"
    "time.sleep(1000)\n"
)
STAYS = "#!/bin/bash\nsetsid sleep 1000 &\nsetsid bash -c 'trap \"\" TERM; sleep 1000' &\n"


Checks = dict[str, tuple[str, int]]
"""By name: a script and its limit in seconds."""
Step = Callable[..., "subprocess.Popen[str]"]


def write_checks(folder: Path, checks: Checks) -> list[str]:
    """Write checks of a test's own; return the binds that lay them over the image's."""
    (folder / "checks").mkdir()
    rows = []
    for name, (script, limit) in checks.items():
        file = f"checks/{name}.{'sh' if script.startswith('#!') else 'py'}"
        (folder / file).write_text(script)
        row = {"name": f"t/{name}", "summary": name, "hint": name, "file": file, "level": "quick"}
        rows.append({**row, "runs": "ranks", "timeout_seconds": limit})
    (folder / "checks.json").write_text(json.dumps(rows))
    places = [f"{folder / name}:{HOME}/{name}" for name in ("checks", "checks.json")]
    return [word for place in (*places, f"{folder}:/mnt") for word in ("--bind", place)]


@pytest.fixture
def step(image: Path, cluster: Env, tmp_path: Path) -> Iterator[Step]:
    """Start a step on two nodes whose tasks run lumi-verify; none is left at the end."""
    with ExitStack() as running:

        def start(
            checks: Checks, *options: str, words: tuple[str, ...] = (), **variables: str
        ) -> subprocess.Popen[str]:
            step = ("--nodes=2", "--ntasks-per-node=2", "--mpi=none", "--kill-on-bad-exit=0")
            srun = ("srun", "--time=10", f"--job-name={name_of(tmp_path)}", *step)
            binds = write_checks(tmp_path, checks)
            engine = ("singularity", "-s", "exec", *options, *binds, image)
            command = (*srun, *engine, "lumi-verify", "--json", "/mnt/report.json", *words)
            env = {**cluster, "MARK": str(tmp_path), **variables}
            return running.enter_context(started(command, env=env))

        yield start


def test_a_death_of_one_rank_is_reported_and_the_rest_goes_on(step: Step, tmp_path: Path) -> None:
    """Hangs are in tests/unit/inside/verify, and in a container in tests/faults/test_gpu_checks."""
    checks = {"stays": (STAYS, 60), "killed": (KILLED, 60), "later": (SHOW, 60)}
    stdout, stderr = step(checks).communicate()
    report = json.loads((tmp_path / "report.json").read_text())
    rows = {row["name"]: row for row in report["checks"]}
    assert {name: row["state"] for name, row in rows.items()} == {
        "t/stays": "passed",
        "t/killed": "error",
        "t/later": "error",
        "lumi-verify/ranks": "error",
    }, stderr
    assert stdout.count("4 checks") == 1
    killed = rows["t/killed"]["reason"]
    assert "on rank 3 (nid005002) of 4: lumi-verify or its node has ended" in killed
    assert "without rank 3 on nid005002" in rows["t/later"]["reason"]
    assert processes_of(tmp_path) == []


@pytest.mark.parametrize("way", ["scancel of the job", "Ctrl-C"])
def test_of_an_interrupted_step_nothing_is_left_and_what_was_done_is_reported(
    step: Step, cluster: Env, tmp_path: Path, way: str
) -> None:
    going = step({"done": (SHOW, 60), "hangs": (HANGS, 1000)})
    wait_for(lambda: len(list(tmp_path.glob("here-*"))) == 4)
    job = job_of(cluster, name_of(tmp_path))
    if way == "Ctrl-C":
        # srun wants it twice within a second.
        for _ in range(2):
            going.send_signal(signal.SIGINT)
            time.sleep(0.2)
    else:
        run(["scancel", job], env=cluster)
    _, stderr = going.communicate(timeout=SECONDS)
    assert going.returncode != 0
    assert "[1/2] passed   t/done" in stderr
    assert processes_of(tmp_path) == []
    # Slurm kills a step at once if it is cancelled, and soon after the second Ctrl-C.
    report = json.loads((tmp_path / "report.json").read_text())
    assert [row["name"] for row in report["checks"]] == ["t/done"]
    assert report["interrupted"]


def test_contained_ranks_of_two_nodes_do_not_meet_and_are_told_how(step: Step) -> None:
    """None sees a folder of another, however long it waits: neither /tmp nor the home folder."""
    contained = step({"ranks": (SHOW, 60)}, "--contain", words=("--wait", "10"))
    _, stderr = contained.communicate(timeout=SECONDS)
    assert contained.returncode != 0
    assert "there is no key of rank 0 in " in stderr
    assert "ranks with --contain see no folder of each other: export LUMI_VERIFY_SECRET=" in stderr


def test_contained_ranks_of_two_nodes_meet_by_a_secret(step: Step, tmp_path: Path) -> None:
    secret = {"LUMI_VERIFY_SECRET": os.urandom(32).hex()}
    contained = step({"ranks": (SHOW, 60)}, "--contain", **secret)
    _, stderr = contained.communicate(timeout=SECONDS)
    assert contained.returncode == 0, stderr
    (row,) = json.loads((tmp_path / "report.json").read_text())["checks"]
    hosts = [each["host"] for each in row["ranks"]]
    assert hosts == ["nid005001", "nid005001", "nid005002", "nid005002"]
