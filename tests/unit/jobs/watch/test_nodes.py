"""The lines of the probes of all nodes become the state of each node."""

import subprocess
from pathlib import Path

import pytest

from lumicontainer.jobs.watch import nodes
from lumicontainer.jobs.watch.nodes import NodeReader, NodeState, RankState

HOSTILE = "\x1b]0;title\x07\x1b[2Jloss\t0.5\rloss\t0.25 "
LINES = [
    *("memory\t4096\t8192", "node\t100\t50"),
    *("gpu\t0000:c1:00.0\t97\t10\t20", "gpu\t0000:c6:00.0\t\t1\t20"),
    "process\t10\t1\tS\t1\tSLURM_PROCID=0 SLURM_STEP_ID=0 ",
    "process\t12\t11\tS\t3\tRANK=1 SLURM_PROCID=0 ",
    "process\t11\t10\tR\t2\tRANK=1 SLURM_PROCID=0 ",
    "process\t20\t10\tD\t1\tRANK=0 SLURM_PROCID=0 ",
    *("log\t11\t5\t/logs/old\tone", f"log\t20\t9\t/logs/a b\t{HOSTILE}"),
    "end",
]


def state_of(lines: list[str], host: str = "nid1") -> NodeState:
    (state,) = filter(None, map(NodeReader().add, [f"{host}\t{each}\n" for each in lines]))
    return state


def test_a_rank_is_its_first_process_with_the_memory_of_all() -> None:
    state = state_of(LINES)
    assert state.ranks == [RankState(0, 20, "D", 4096), RankState(1, 11, "R", 5 * 4096)]
    assert (state.used, state.limit, state.total) == (4096, 8192, 102400)
    assert [gpu.busy for gpu in state.gpus] == [97, None]


def test_the_last_line_of_a_log_has_no_sequences_of_the_terminal() -> None:
    state = state_of(LINES)
    assert (state.log, state.line) == ("a b", "loss\t0.25")


def test_tasks_that_no_launcher_numbered_are_numbered_by_srun() -> None:
    lines = ["process\t10\t1\tS\t1\tSLURM_PROCID=7 ", "end"]
    assert [each.rank for each in state_of(lines).ranks] == [7]


def test_lines_of_nodes_may_come_mixed() -> None:
    reader, states = NodeReader(), []
    for line in LINES:
        states += [reader.add(f"{host}\t{line}\n") for host in ("nid1", "nid2")]
    both = [each for each in states if each]
    assert [each.name for each in both] == ["nid1", "nid2"]
    assert both[0]._replace(name="") == both[1]._replace(name="")


@pytest.mark.parametrize(
    "line",
    [
        "memory",
        f"memory\t{'9' * 400}\t5",
        f"node\t{'9' * 400}\t1",
        "gpu\tx",
        "process\t1",
        "process\ta\tb\tc\td\te",
        "log\tx\ty\tz\tw",
        "other\t1",
        "",
    ],
)
def test_lines_that_are_no_state_are_left_out(line: str) -> None:
    state = state_of([line, f"{line}\t", "end"])
    assert (state.ranks, state.gpus, state.line) == ([], [], "")
    assert (state.used, state.total) == (None, 0)


CGROUPS = {
    "0::/system.slice/slurmstepd.scope/job_7/step_1/user/task_0": (
        "sys/fs/cgroup/system.slice/slurmstepd.scope/job_7",
        ("memory.current", "memory.max"),
    ),
    "4:memory:/slurm/uid_1/job_7/step_1": (
        "sys/fs/cgroup/memory/slurm/uid_1/job_7",
        ("memory.usage_in_bytes", "memory.limit_in_bytes"),
    ),
}


OWN = "SLURM_JOB_ID=7\0RANK=3\0SLURM_STEP_ID=0\0SLURMD_NODENAME=nid9\0X=a\nRANK=9\0"
OTHERS = {
    8: "SLURM_JOB_ID=8\0RANK=4\0SLURM_STEP_ID=0\0SLURMD_NODENAME=nid9\0",
    9: "SLURM_JOB_ID=7\0SLURM_PROCID=0\0SLURMD_NODENAME=nid9\0",
    10: "SLURM_JOB_ID=7\0SLURM_PROCID=0\0SLURM_STEP_ID=1\0SLURMD_NODENAME=nid9\0",
    12: "SLURM_JOB_ID=7\0RANK=6\nnid1\tend\nnid9\tend\0SLURM_STEP_ID=0\0SLURMD_NODENAME=nid9\0",
    11: "SLURM_JOB_ID=7\0RANK=5\0SLURM_STEP_ID=0\0SLURMD_NODENAME=nid8\0",
}
"""Processes of another job, the batch script, the probe, a hostile one, and another node's."""


STAND_IN_FOR_AMDGPU = {
    "gpu_busy_percent": "42\n",
    "mem_info_vram_used": "5\n",
    "mem_info_vram_total": "10\n",
}
"""The files of a GPU, as the Linux kernel's documentation of amdgpu describes them."""


@pytest.mark.slow
@pytest.mark.parametrize("line", CGROUPS)
def test_the_probe_reads_the_control_group_a_stand_in_for_the_driver_and_the_processes(
    tmp_path: Path, line: str
) -> None:
    group, files = CGROUPS[line]
    device = "sys/class/drm/card1/device"
    texts = {
        "proc/self/cgroup": f"1:name=systemd:/x\n{line}\n",
        "proc/meminfo": "MemTotal:  2048 kB\nMemAvailable:  1024 kB\n",
        f"{group}/{files[0]}": "300\n",
        f"{group}/{files[1]}": "max\n" if files[1] == "memory.max" else f"{1 << 62}\n",
        **{f"{device}/{name}": text for name, text in STAND_IN_FOR_AMDGPU.items()},
        "proc/7/stat": f"7 (a) b (c) R 1 {' '.join(map(str, range(5, 30)))}\n",
        "proc/7/environ": OWN,
        **{f"proc/{pid}/environ": text for pid, text in OTHERS.items()},
        **{
            f"proc/{pid}/stat": f"{pid} (x) S {' '.join(map(str, range(4, 30)))}\n"
            for pid in OTHERS
        },
        "the log": "first\n\x1b[1mlast\n\n",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "proc/7/fd").mkdir()
    (tmp_path / "proc/7/fd/1").symlink_to(tmp_path / "the log")
    probe = Path(nodes.__file__).with_name("probe.sh").read_text()
    done = subprocess.run(
        ["bash", "-c", probe, "probe", "7", "0", str(tmp_path)],
        env={"SLURMD_NODENAME": "nid9", "SLURM_STEP_ID": "1", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    (state,) = filter(None, map(NodeReader().add, done.stdout.splitlines()))
    assert (state.name, state.used, state.limit, state.total) == ("nid9", 300, None, 2 << 20)
    assert [(each.busy, each.memory, each.total) for each in state.gpus] == [(42, 5, 10)]
    assert [(each.rank, each.state) for each in state.ranks] == [(3, "R")]
    assert (state.log, state.line) == ("the log", "last")
