"""A task of srun whose variables the engine cleaned away does not train alone unnoticed."""

from pathlib import Path
from typing import Any

import pytest

from lumicontainer.inside.errors import LaunchError
from lumicontainer.inside.node.hardware import Node
from lumicontainer.inside.rank.context import Options

from .. import deciding, seen
from ..deciding import decide

DAEMON = 500
FIRST_TASK = 700
CGROUP_1 = "9:freezer:/slurm/uid_1000/job_1/step_0/task_{}\n8:cpuset:/slurm/uid_1000/job_1/step_0\n"
CGROUP_2 = "0::/system.slice/slurmstepd.scope/job_1/step_0/user/task_{}\n"


def process(root: Path, name: str, pid: int, parent: int, title: str = "") -> None:
    folder = root / "proc" / name
    folder.mkdir(parents=True)
    (folder / "stat").write_text(f"{pid} (a) (b) c) S {parent} 7 7 0 -1\n")
    (folder / "cmdline").write_text(title)


def task_of(
    root: Path, step: str, *, tasks: int = 4, mine: int = 0, between: int = 2, group: str = ""
) -> Node:
    """Write the processes of a step on a node, this one below the task ``mine``."""
    process(root, "1", 1, 0, "init")
    process(root, str(DAEMON), DAEMON, 1, f"slurmstepd: [{step}]")
    for task in range(FIRST_TASK, FIRST_TASK + tasks):
        process(root, str(task), task, DAEMON, "engine\0exec\0")
    parent = FIRST_TASK + mine
    for pid in range(900, 900 + between):
        process(root, str(pid), pid, parent, "bash\0")
        parent = pid
    process(root, "self", 999, parent)
    (root / "proc/self/cgroup").write_text(group)
    return Node(str(root))


def hidden(root: Path, group: str) -> Node:
    """Write what a container with its own process ids shows."""
    process(root, "1", 1, 0, "sinit\0")
    process(root, "self", 7, 1)
    (root / "proc/self/cgroup").write_text(group)
    return Node(str(root))


def refusal(node: Node, **options: str | int) -> LaunchError:
    error = deciding.refusal({}, node=node, options=Options(**options))
    assert error.what == "srun started this task, but Slurm's variables are missing"
    assert error.where.startswith("step 1.0 on ")
    assert "--cleanenv" in error.hint
    return error


@pytest.mark.parametrize(
    ("processes", "first"),
    [
        ({"mine": 0, "between": 1}, True),
        ({"mine": 0, "between": 3}, True),
        ({"mine": 3, "between": 1}, False),
        ({"mine": 3, "between": 3}, False),
        pytest.param({"tasks": 1, "group": CGROUP_2.format(3)}, False, id="its group's number"),
    ],
)
def test_a_task_is_refused_and_the_first_prints_it(
    tmp_path: Path, processes: dict[str, Any], first: bool
) -> None:
    assert refusal(task_of(tmp_path, "1.0", **processes)).shown is first


def test_the_last_task_is_refused_too_even_if_it_would_start_a_launcher(tmp_path: Path) -> None:
    assert refusal(task_of(tmp_path, "1.0", tasks=1), launcher="torchrun", nproc=2).shown


def test_a_task_that_became_its_program_is_refused(tmp_path: Path) -> None:
    process(tmp_path, str(DAEMON), DAEMON, 1, "slurmstepd: [1.0]")
    process(tmp_path, "self", FIRST_TASK, DAEMON)
    process(tmp_path, str(FIRST_TASK), FIRST_TASK, DAEMON)
    assert refusal(Node(str(tmp_path))).shown


@pytest.mark.parametrize("group", [CGROUP_1, CGROUP_2])
@pytest.mark.parametrize("task", [0, 3])
def test_the_control_group_decides_for_hidden_tasks(tmp_path: Path, group: str, task: int) -> None:
    assert refusal(hidden(tmp_path, group.format(task))).shown is (task == 0)


@pytest.mark.parametrize(
    "group",
    [
        "0::/system.slice/slurmstepd.scope/job_1/step_batch/user/task_0\n",
        "0::/user.slice/user-0.slice/session-1.scope\n",
        "broken",
        "",
    ],
)
def test_a_process_of_no_step_runs(tmp_path: Path, group: str) -> None:
    assert decide({}, node=hidden(tmp_path, group)).warnings == []


@pytest.mark.parametrize("step", ["1.batch", "1.interactive", "1.extern"])
def test_a_shell_of_a_job_is_not_a_task(tmp_path: Path, step: str) -> None:
    assert decide({}, node=task_of(tmp_path, step, tasks=2)).warnings == []


@pytest.mark.slow
@pytest.mark.parametrize("env", [seen.srun(1), {"WORLD_SIZE": "1"}, seen.BY_HAND])
def test_a_task_that_knows_its_ranks_runs(tmp_path: Path, env: dict[str, str]) -> None:
    assert decide(env, node=task_of(tmp_path, "1.0")).warnings == []
