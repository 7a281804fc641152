"""A task of srun whose variables the engine cleaned away does not train alone unnoticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from lumicontainer.inside.decide import Decision, decide
from lumicontainer.inside.errors import LaunchError
from lumicontainer.inside.node import Node

from . import seen

CGROUP_1 = "9:freezer:/slurm/uid_1000/job_1/step_0/task_3\n8:cpuset:/slurm/uid_1000/job_1/step_0\n"
CGROUP_2 = "0::/system.slice/slurmstepd.scope/job_1/step_0/user/task_3\n"


def processes(root: Path, *above: dict[str, str] | None, group: str = "0::/\n") -> Node:
    """Write the files of this process and of those above it; None: one that cannot be read."""
    pids = ["self", *(str(1000 - index) for index in range(len(above))), "1"]
    for pid, parent, env in zip(pids, [*pids[1:], "0"], [{}, *above, {}], strict=True):
        folder = root / "proc" / pid
        folder.mkdir(parents=True)
        (folder / "stat").write_text(f"{pid} (a (b) c) S {parent} 7 7 0 -1\n")
        if env is not None:
            entries = "".join(f"{name}={value}\0" for name, value in env.items())
            (folder / "environ").write_text(entries)
    (root / "proc/self/cgroup").write_text(group)
    return Node(str(root))


def decided(node: Node, **env: str) -> Decision:
    return decide(env, node=node)


@pytest.mark.parametrize("between", [[], [{}], [None, {}]])
@pytest.mark.parametrize("rank", [0, 3])
def test_one_of_four_tasks_is_refused_and_task_0_tells(
    tmp_path: Path, rank: int, between: list[dict[str, str] | None]
) -> None:
    node = processes(tmp_path, *between, seen.srun(rank))
    with pytest.raises(LaunchError) as caught:
        decided(node)
    assert caught.value.what.startswith(f"this is task {rank} of 4 that srun started")
    assert "--cleanenv" in caught.value.mend
    assert caught.value.told is (rank == 0)


def test_the_only_task_of_a_step_is_one_process(tmp_path: Path) -> None:
    node = processes(tmp_path, {**seen.srun(0), "SLURM_STEP_NUM_TASKS": "1"}, group=CGROUP_2)
    assert decided(node).warnings == []


@pytest.mark.parametrize("group", [CGROUP_1, CGROUP_2])
def test_where_the_engine_is_not_to_be_read_the_control_group_warns(
    tmp_path: Path, group: str
) -> None:
    decision = decided(processes(tmp_path, None, None, group=group))
    assert decision.warned()
    assert decision.warnings[0].startswith("this is a task of Slurm's step 1.0, but takes itself ")


@pytest.mark.parametrize(
    "group",
    [
        "0::/system.slice/slurmstepd.scope/job_1/step_batch/user/task_0\n",
        "0::/user.slice/user-0.slice/session-1.scope\n",
        "broken",
        "",
    ],
)
def test_elsewhere_nothing_is_said(tmp_path: Path, group: str) -> None:
    assert decided(processes(tmp_path, {}, {}, group=group)).warnings == []


@pytest.mark.parametrize("shell", [seen.BATCH, seen.SALLOC, seen.INTERACTIVE])
def test_a_shell_of_a_job_is_no_task(tmp_path: Path, shell: dict[str, str]) -> None:
    assert decided(processes(tmp_path, {}, shell)).warnings == []


def test_ranks_that_the_engine_was_given_by_hand_are_taken(tmp_path: Path) -> None:
    node = processes(tmp_path, seen.srun(3))
    decided(node, RANK="3", LOCAL_RANK="0", WORLD_SIZE="4", MASTER_ADDR="n1")


def test_a_machine_without_such_files_is_no_fault(tmp_path: Path) -> None:
    assert decided(Node(str(tmp_path))).warnings == []
