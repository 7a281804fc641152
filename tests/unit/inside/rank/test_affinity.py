"""Each rank runs on the cores next to its GPU, and says so where Slurm had it otherwise."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lumicontainer.inside.node import cpulist
from lumicontainer.inside.node.hardware import Node
from lumicontainer.inside.rank import affinity, node_launcher
from lumicontainer.inside.rank.context import Options

from .. import lumi_node, seen
from ..conftest import Entry, Env
from ..deciding import decide
from ..lumi_node import BUSES, PLATFORM, Machine, pci
from .test_gpus import task

OWN = ["49-55", "57-63", "17-23", "25-31", "1-7", "9-15", "33-39", "41-47"]
"""The cores of each GCD, in the order of ROCr (LUMI's 202-Binding)."""


class Rank:
    """Start one rank on a node, as far as the program."""

    def __init__(
        self,
        root: Path,
        env: Mapping[str, str],
        *,
        mask: str = "0-63",
        cpuset: str = "0-127",
        platform: Mapping[str, Any] = PLATFORM,
        program: Sequence[str] = (),
        **options: str | int | bool,
    ) -> None:
        self.node = Machine(root, mask=cpulist.parse_cpus(mask), cpuset=cpulist.parse_cpus(cpuset))
        settings = {"platform": platform, "options": Options(**options), "program": program}
        decision = decide(env, node=self.node, **settings)
        affinity.bind(decision.context)
        self.notes, self.warnings = decision.context.notes, decision.warnings
        self.cores = cpulist.written(self.node.mask)
        self.changes = decision.changes()
        self.env = {**env, **self.changes}
        self.threads = self.env.get("OMP_NUM_THREADS")
        self.why = "".join(s.why for s in decision.settings if s.name == "OMP_NUM_THREADS")


@pytest.mark.parametrize("buses", [BUSES, BUSES[::-1], BUSES[1:], ("de", "c1")])
def test_unbound_ranks_run_near_their_gpus_quietly(tmp_path: Path, buses: tuple[str, ...]) -> None:
    lumi_node.write(tmp_path, buses=buses)
    gpus = len(buses)
    ranks = [Rank(tmp_path, task(local, of=gpus, gpus=gpus)) for local in range(gpus)]
    assert [rank.cores for rank in ranks] == [OWN[BUSES.index(bus)] for bus in buses]
    assert [rank.notes for rank in ranks] == [[]] * gpus


def test_ranks_that_share_a_gpu_share_its_cores(tmp_path: Path) -> None:
    lumi_node.write(tmp_path, buses=BUSES[:4])
    rank = Rank(tmp_path, task(5, gpus=4), allow_gpu_sharing=True)
    assert (rank.cores, rank.threads) == (OWN[1], "3")


ONE_CORE = {"mask": "49", "cpuset": "49"}
C_1 = task(0, SLURM_CPUS_PER_TASK="1")
C_28 = task(0, of=2, SLURM_CPUS_PER_TASK="28")
TWO = task(0, of=2, gpus=2)
CGROUP = {"mask": "1-4", "cpuset": "1-4,49-52"}
NONE_OF_GPU = {"mask": "0-13", "cpuset": "0-13"}
FEW_OF_GPU = {"mask": "0-13,49-51", "cpuset": "0-13,49-51"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env", "masks", "cores", "note"),
    [
        pytest.param(task(0), {"mask": "47,49-54"}, OWN[0], "47,49-54", id="across two CCDs"),
        pytest.param(task(0), {"mask": "49"}, OWN[0], "", id="one core, by default"),
        pytest.param(task(0), ONE_CORE, "49", "srun -c 7", id="one core, and the job has no more"),
        pytest.param(C_1, {"mask": "49"}, "49", "", id="one core, as asked"),
        pytest.param(
            C_28, {"mask": "1"}, OWN[0], "49-55 now", id="one core, as sbatch -c leaves it"
        ),
        pytest.param(task(0), {"mask": "49-50"}, "49-50", "srun -c 7", id="fewer than its GPU has"),
        pytest.param(C_28, {"mask": "0-27"}, "0-27", "", id="more cores than a CCD has"),
        pytest.param({"HIP_VISIBLE_DEVICES": "0"}, {}, "0-63", "", id="one process"),
        pytest.param(seen.mpiexec(1), {}, OWN[1], "", id="mpiexec"),
        pytest.param(seen.BY_HAND, {}, OWN[1], "", id="by hand"),
        pytest.param(task(0, of=1), {}, "0-63", "", id="one rank that starts others"),
        pytest.param(task(0), CGROUP, "49-52", "bound to 49-52 now", id="a cgroup"),
        pytest.param(TWO, NONE_OF_GPU, "0-13", "--exclusive", id="none of the GPU's cores"),
        pytest.param(TWO, FEW_OF_GPU, "0-13,49-51", "--exclusive", id="few of the GPU's cores"),
        pytest.param(task(0), {"mask": "1-7", "no_bind": True}, "1-7", "", id="--no-bind"),
    ],
)
def test_a_rank_is_bound_next_to_its_gpu_or_reports_why_not(
    whole: Path, env: Env, masks: dict[str, Any], cores: str, note: str
) -> None:
    rank = Rank(whole, env, **masks)
    assert (rank.cores, len(rank.notes)) == (cores, int(bool(note)))
    assert note in "".join(rank.notes)


def test_slurm_s_own_order_of_ccds_is_reported_and_corrected(whole: Path) -> None:
    """Slurm's -c 7 gives rank N the cores of CCD N: only CCD 2 and 3 are next to GCD 2 and 3."""
    for local in range(8):
        cores = f"{local * 8 + 1}-{local * 8 + 7}"
        rank = Rank(whole, task(local), mask=cores)
        assert rank.cores == OWN[local]
        note = (
            f"rank {local} (GPU {pci(BUSES[local])}) was given cores {cores}; "
            f"its GPU's are {OWN[local]}: bound to {OWN[local]} now"
        )
        assert rank.notes == ([] if local in (2, 3) else [note])


C_2 = task(0, SLURM_CPUS_PER_TASK="2")
C_7 = task(0, SLURM_CPUS_PER_TASK="7")
C_14 = task(0, of=4, SLURM_CPUS_PER_TASK="14")
BOTH = "49-55,113-119"
INSIDE = ("49-55", "48-55", BOTH, "48-55,112-119")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env", "mask", "cores", "threads"),
    [
        *(pytest.param(C_7, mask, mask, "7", id=f"{mask} is inside the CCD") for mask in INSIDE),
        pytest.param(C_7, "51", "49-55", "7", id="one core, as sbatch -c leaves it"),
        pytest.param(C_2, "49,113", "49,113", "2", id="two threads, as asked"),
        pytest.param(C_1, "49,113", "49,113", "1", id="one core, as asked"),
        pytest.param(C_14, "1-7,9-15", "1-7,9-15", "14", id="srun counts cores"),
        pytest.param(C_14, "1-7,65-71", BOTH, "7", id="srun counts threads"),
        pytest.param(task(0), "0-63", "49-55", "7", id="no second threads"),
        pytest.param(task(0), "0-127", BOTH, "7", id="second threads"),
        pytest.param(task(0), "1-7,65-71", BOTH, "7", id="second threads of another CCD"),
        pytest.param(task(0), "49,113", BOTH, "7", id="both threads of one core"),
    ],
)
def test_second_threads_come_along_where_slurm_hands_them_out(
    tmp_path: Path, env: Env, mask: str, cores: str, threads: str
) -> None:
    lumi_node.write(tmp_path, smt=True)
    rank = Rank(tmp_path, env, mask=mask)
    assert (rank.cores, rank.threads) == (cores, threads)
    changed = not cpulist.parse_cpus(cores) <= cpulist.parse_cpus(mask)
    assert bool(rank.notes) == (changed and mask != "49,113")


def test_a_rank_of_torchrun_leaves_the_one_core_of_the_task(whole: Path) -> None:
    ranks = {"LOCAL_RANK": "4", "LOCAL_WORLD_SIZE": "8", "RANK": "4", "WORLD_SIZE": "8"}
    env = {**ranks, "GROUP_RANK": "0", "TORCHELASTIC_RUN_ID": "1"}
    assert Rank(whole, env, mask="1").cores == OWN[4]
    assert Rank(whole, env, mask="1", cpuset="1").cores == "1"


RANK_3 = {"RANK": "3", "LOCAL_RANK": "3", "WORLD_SIZE": "8"}
OF_TORCHRUN = {"LOCAL_WORLD_SIZE": "8", "GROUP_RANK": "0", "TORCHELASTIC_RUN_ID": "1"}
OF_DEEPSPEED = {"LOCAL_SIZE": "8", "CROSS_RANK": "0", "CROSS_SIZE": "1"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("platform", "own", "no_bind", "threads"),
    [
        pytest.param(PLATFORM, {}, False, "7", id="it has seven cores then"),
        pytest.param(PLATFORM, {"OMP_NUM_THREADS": "3"}, False, "3", id="the user's number"),
        pytest.param(PLATFORM, {}, True, "1", id="it shares the task's core"),
        pytest.param({}, {}, False, "1", id="it shares the task's core, without a table"),
    ],
)
@pytest.mark.parametrize("by", [OF_TORCHRUN, OF_DEEPSPEED])
def test_a_rank_of_our_launcher_counts_its_cores_once_it_is_bound(
    whole: Path, platform: Env, own: Env, no_bind: bool, threads: str, by: Env
) -> None:
    settings = {"platform": platform, "launcher": "torchrun", "nproc": 8, "no_bind": no_bind}
    started = Rank(whole, task(0, of=1, **own), mask="1", program=["train.py"], **settings)
    env = {**started.env, **node_launcher.marks("torchrun", started.changes), **RANK_3, **by}
    rank = Rank(whole, env, mask="1", **settings)
    bound = bool(platform) and not no_bind
    assert (rank.cores, rank.threads) == (OWN[3] if bound else "1", threads)


PART = "33-39,41-47"
"""The cores of two GPUs, which Slurm may give to a job with two others."""
PAIR = ("c1", "c6")


@pytest.mark.parametrize(
    ("buses", "cpuset", "cores"),
    [
        pytest.param(PAIR, PART, ["33-39", "41-47"], id="no rank's cores"),
        pytest.param(("c1", "d9"), PART, ["41-47", "33-39"], id="one rank's cores"),
        pytest.param(PAIR, "33-39,51-54", ["33,51-54", "34-38"], id="some of one rank's cores"),
        pytest.param(PAIR, "33-34", ["33", "34"], id="a core for each rank"),
        pytest.param(PAIR, "33", ["33", "33"], id="one core"),
    ],
)
@pytest.mark.parametrize("by", [{}, {**OF_TORCHRUN, "LOCAL_WORLD_SIZE": "2"}])
def test_ranks_divide_a_job_whose_cores_are_not_next_to_its_gpus(
    tmp_path: Path, buses: tuple[str, ...], cpuset: str, cores: list[str], by: Env
) -> None:
    lumi_node.write(tmp_path, buses=buses)
    ranks = []
    for local in (0, 1):
        numbers = {"RANK": str(local), "LOCAL_RANK": str(local), "WORLD_SIZE": "2"}
        env = {**task(local, of=2, gpus=2), **(numbers if by else {}), **by}
        ranks.append(Rank(tmp_path, env, mask="33", cpuset=cpuset))
    assert [rank.cores for rank in ranks] == cores
    assert [rank.threads for rank in ranks] == [str(len(cpulist.parse_cpus(c))) for c in cores]


@pytest.mark.parametrize(
    ("cpuset", "note"),
    [
        (PART, "none: bound to 33-39 (whole nodes have them: --exclusive)"),
        (f"{PART},50", "50: bound to 33-38,50 (whole nodes have them: --exclusive)"),
        ("33", "none: not bound (srun --cpus-per-task=7)"),
    ],
)
def test_a_rank_on_cores_that_are_not_its_gpu_s_reports_them(
    tmp_path: Path, cpuset: str, note: str
) -> None:
    lumi_node.write(tmp_path, buses=PAIR)
    beginning = (
        f"rank 0 (GPU {pci('c1')}) was given cores 33; of its GPU's cores 49-55 the job has "
    )
    assert Rank(tmp_path, TWO, mask="33", cpuset=cpuset).notes == [beginning + note]


@pytest.mark.parametrize("hidden", [1, 2])
def test_a_rank_that_does_not_see_the_others_gpus_takes_no_distant_cores(
    tmp_path: Path, hidden: int
) -> None:
    lumi_node.write(tmp_path, buses=BUSES[: hidden + 1], hidden=BUSES[1 : hidden + 1])
    env = task(0, of=2, gpus=2, ROCR_VISIBLE_DEVICES="0")
    assert Rank(tmp_path, env, mask="33", cpuset=PART).cores == "33"
    assert Rank(tmp_path, env, mask="33", cpuset=f"{PART},49-50").cores == "49-50"


def per_task(number: int) -> dict[str, str]:
    return {**seen.srun(0), "SLURM_CPUS_PER_TASK": str(number)}


@pytest.mark.parametrize(
    ("env", "masks", "threads", "why"),
    [
        (per_task(3), ("0-3", "0-63"), "3", "SLURM_CPUS_PER_TASK"),
        (per_task(4), ("0-3", "0-63"), "4", "SLURM_CPUS_PER_TASK"),
        (per_task(5), ("0-3", "0-63"), "4", "this process may run on 4 processors only"),
        (seen.srun(0), ("0", "0"), "1", "1 processors, which 3 ranks of this node share"),
        (seen.srun(0), ("0-2", "0-2"), "1", "3 processors, which 3 ranks of this node share"),
        (seen.srun(0), ("0-63", "0-63"), "21", "64 processors, which 3 ranks of this node share"),
        (seen.srun(0), ("0-65", "0-65"), "22", "66 processors, which 3 ranks of this node share"),
        (seen.srun(0), ("0-6", "0-63"), None, "is bound to processors; the program counts them"),
        ({}, ("0-63", "0-63"), None, ""),
    ],
)
def test_ranks_without_a_table_share_what_their_job_may_use(
    monkeypatch: pytest.MonkeyPatch, env: Env, masks: tuple[str, str], threads: str, why: str
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 128)
    rank = Rank(Path("/nowhere"), env, mask=masks[0], cpuset=masks[1], platform={})
    assert rank.threads == threads
    assert rank.why.endswith(why)


@pytest.mark.parametrize("own", [{}, {"OMP_NUM_THREADS": "7"}])
def test_a_launcher_hands_on_the_user_s_threads_only(whole: Path, own: Env) -> None:
    env, user = {**per_task(56), **own}, own.get("OMP_NUM_THREADS")
    for program in (["-m", "torch.distributed.run", "x.py"], ["--", "/opt/bin/torchrun", "x.py"]):
        assert Rank(whole, env, platform={}, program=program).threads == user
    assert Rank(whole, env, platform={}, program=["train.py"]).threads == (user or "56")


@pytest.mark.parametrize(
    ("platform", "ranks"), [({}, 16), ({"accelerator": "cpu"}, 16), ({"accelerator": "rocm"}, 8)]
)
def test_without_a_table_nothing_is_bound_or_refused(
    whole: Path, platform: Mapping[str, Any], ranks: int
) -> None:
    rank = Rank(whole, task(0, of=ranks), platform=platform)
    assert (rank.cores, rank.notes, rank.warnings) == ("0-63", [], [])


def test_a_gpu_that_the_table_does_not_know_is_reported_once(whole: Path) -> None:
    table = {**PLATFORM, "gpus": PLATFORM["gpus"][1:]}
    rank = Rank(whole, task(0), platform=table)
    assert rank.cores == "0-63"
    assert pci("c1") in rank.warnings[0]


def test_the_report_reports_where_each_rank_runs(whole: Path) -> None:
    (whole / "sys/class/net/hsn0/operstate").write_text("down\n")
    notes = [Rank(whole, task(local), affinity_report=True).notes for local in (0, 4)]
    host = os.uname().nodename
    assert notes == [
        [f"affinity: {host} rank 0 gpu 0000:c1:00.0 cores 49-55 numa 3 nic hsn0 (down)"],
        [f"affinity: {host} rank 4 gpu 0000:d1:00.0 cores 1-7 numa 0 nic hsn2"],
    ]


def test_print_env_reports_where_a_rank_would_run_and_binds_nothing(whole: Path) -> None:
    node = Machine(whole)
    decision = decide(task(3), node=node, platform=PLATFORM)
    place = "place: gpu 0000:ce:00.0, cores 25-31, numa 1, nic hsn1"
    assert place in decision.as_text().splitlines()
    assert '"cores": "25-31"' in decision.as_json()
    assert len(node.mask) == 64


CORES = st.integers(0, 63)


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 7), st.frozensets(CORES, min_size=1), st.frozensets(CORES))
def test_no_binding_leaves_the_job_or_takes_cores_from_a_rank_that_could_use_them(
    whole: Path, local: int, mask: frozenset[int], others: frozenset[int]
) -> None:
    cpuset = mask | others
    written = {"mask": cpulist.written(mask), "cpuset": cpulist.written(cpuset)}
    got = Rank(whole, task(local), **written).node.mask
    own = cpulist.parse_cpus(OWN[local])
    assert got
    assert got <= cpuset
    if len(mask) > 1:
        assert got in (mask, own & cpuset)
    assert len(got & own) >= len(mask & own)
    assert len(got) >= min(len(mask), len(own))
    if own <= cpuset:
        assert got <= own | {min(own) - 1}


@pytest.mark.slow
def test_every_rank_s_line_reaches_its_stderr(entry: Entry) -> None:
    done = entry("--affinity-report", "--", "true")
    cores = cpulist.written(os.sched_getaffinity(0))
    assert done.stderr == f"affinity: {os.uname().nodename} rank 0 cores {cores}\n"


HERE = sorted(os.sched_getaffinity(0))
FIRST, LAST = HERE[0], HERE[-1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cores", "bound_to", "runs_on", "note"),
    [
        pytest.param(str(FIRST), HERE, [FIRST], "", id="the core of its GPU"),
        pytest.param(str(LAST), HERE, [LAST], "", id="the core of its GPU, another one"),
        pytest.param(
            str(FIRST),
            [LAST],
            [FIRST],
            f"bound to {FIRST} now" if FIRST != LAST else "",
            id="another core than it was given",
        ),
        pytest.param("4000-4006", HERE, HERE, "the job has none", id="cores that are not there"),
    ],
)
def test_the_kernel_binds_a_rank(
    tmp_path: Path, cores: str, bound_to: list[int], runs_on: list[int], note: str
) -> None:
    node = Node(str(lumi_node.write(tmp_path, buses=("c1",), threads=1)))
    platform = {"accelerator": "rocm", "gpus": [{"pci": pci("c1"), "cores": cores}]}
    os.sched_setaffinity(0, bound_to)
    try:
        env = task(0, of=1, gpus=1, SLURM_CPUS_PER_TASK="1")
        context = decide(env, node=node, platform=platform).context
        affinity.bind(context)
        assert sorted(os.sched_getaffinity(0)) == runs_on
    finally:
        os.sched_setaffinity(0, HERE)
    assert [note in text for text in context.notes] == [True] * bool(note)
