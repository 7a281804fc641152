"""Every rank gets a GPU of its own, whatever Slurm and the user have hidden before."""

from pathlib import Path

import pytest

from lumicontainer.inside.entry.decide import Decision
from lumicontainer.inside.errors import LaunchError
from lumicontainer.inside.rank.context import Options

from .. import lumi_node, seen
from ..deciding import decide
from ..lumi_node import BUSES, PLATFORM, Machine, pci

ALL = "0,1,2,3,4,5,6,7"


def task(local: int, *, of: int = 8, gpus: int | None = 8, **env: str) -> dict[str, str]:
    """Return a task of a step on one node, to which Slurm gave a number of GPUs."""
    slurm = {
        **seen.srun(0),
        "SLURM_PROCID": str(local),
        "SLURM_LOCALID": str(local),
        "SLURM_STEP_NUM_TASKS": str(of),
        "SLURM_STEP_TASKS_PER_NODE": str(of),
        "SLURM_STEP_NUM_NODES": "1",
        "SLURM_STEP_NODELIST": "nid005001",
    }
    if gpus is not None:
        slurm["SLURM_GPUS_ON_NODE"] = str(gpus)
        slurm["ROCR_VISIBLE_DEVICES"] = ",".join(map(str, range(gpus)))
    return {**slurm, **env}


def decided(root: Path, env: dict[str, str], **options: str | bool) -> Decision:
    return decide(env, node=Machine(root), platform=PLATFORM, options=Options(**options))


def place(root: Path, env: dict[str, str], **options: str | bool) -> str | None:
    gpu = decided(root, env, **options).context.gpu
    return gpu.pci if gpu else None


def test_what_torchrun_leaves_no_use_for_is_reported(whole: Path) -> None:
    for choice in ("hip", "rocr", "none"):
        env = {**seen.TORCHRUN_IN_SRUN, "RANK": "0", "LOCAL_RANK": "0"}
        warned = decided(whole, env, gpu_visibility=choice).warnings
        assert any("is ignored" in text for text in warned) == (choice != "none")


def variables(root: Path, env: dict[str, str], **options: str | bool) -> dict[str, str]:
    """Return what a rank gets of the three variables that hide GPUs."""
    changed = {**env, **decided(root, env, **options).changes()}
    return {name: changed[name] for name in sorted(changed) if "VISIBLE_DEVICES" in name}


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    return lumi_node.write(tmp_path)


def test_each_local_rank_has_the_gpu_of_its_number(whole: Path) -> None:
    assert [place(whole, task(local)) for local in range(8)] == [pci(bus) for bus in BUSES]


def test_as_it_comes_the_program_sees_all_gpus_as_under_torchrun(whole: Path) -> None:
    assert variables(whole, task(3)) == {"ROCR_VISIBLE_DEVICES": ALL}


def test_hip_shows_one_gpu_and_rocr_keeps_all(whole: Path) -> None:
    got = [variables(whole, task(local), gpu_visibility="hip") for local in range(8)]
    assert got == [
        {"HIP_VISIBLE_DEVICES": str(local), "ROCR_VISIBLE_DEVICES": ALL} for local in range(8)
    ]


def test_rocr_shows_one_gpu_which_hip_would_count_as_0(whole: Path) -> None:
    assert variables(whole, task(3), gpu_visibility="rocr") == {"ROCR_VISIBLE_DEVICES": "3"}
    env = task(3, HIP_VISIBLE_DEVICES=ALL)
    assert variables(whole, env, gpu_visibility="rocr") == {
        "HIP_VISIBLE_DEVICES": "0",
        "ROCR_VISIBLE_DEVICES": "3",
    }


@pytest.mark.parametrize("rank", range(4))
def test_indices_count_what_slurm_left(whole: Path, rank: int) -> None:
    env = task(rank, of=4, ROCR_VISIBLE_DEVICES="4,5,2,3", SLURM_GPUS_ON_NODE="4")
    assert place(whole, env) == pci(BUSES[(4, 5, 2, 3)[rank]])
    hip = variables(whole, env, gpu_visibility="hip")
    assert hip == {"HIP_VISIBLE_DEVICES": str(rank), "ROCR_VISIBLE_DEVICES": "4,5,2,3"}
    rocr = variables(whole, env, gpu_visibility="rocr")
    assert rocr == {"ROCR_VISIBLE_DEVICES": str((4, 5, 2, 3)[rank])}


def test_indices_count_what_the_job_s_cgroup_left(tmp_path: Path) -> None:
    lumi_node.write(tmp_path, hidden=BUSES[:4])
    env = task(1, of=4, gpus=4)
    assert place(tmp_path, env) == pci("d6")
    assert variables(tmp_path, env, gpu_visibility="rocr") == {"ROCR_VISIBLE_DEVICES": "1"}
    assert decided(tmp_path, env).warnings == []


def test_slurm_may_name_gpus_by_uuid(whole: Path) -> None:
    env = task(1, of=2, ROCR_VISIBLE_DEVICES="GPU-d6,GPU-C1", SLURM_GPUS_ON_NODE="2")
    assert place(whole, env) == pci("c1")
    assert variables(whole, env, gpu_visibility="hip")["HIP_VISIBLE_DEVICES"] == "1"


def test_an_order_of_the_user_s_is_kept(whole: Path) -> None:
    env = task(0, HIP_VISIBLE_DEVICES="4,5,2,3,6,7,0,1")
    assert place(whole, env) == pci("d1")
    assert variables(whole, env)["HIP_VISIBLE_DEVICES"] == "4,5,2,3,6,7,0,1"
    assert variables(whole, env, gpu_visibility="hip")["HIP_VISIBLE_DEVICES"] == "4"


def test_cuda_s_variable_counts_where_hip_s_is_not_set(whole: Path) -> None:
    env = task(0, of=2, CUDA_VISIBLE_DEVICES="6,7")
    assert place(whole, env) == pci("d9")
    assert place(whole, {**env, "HIP_VISIBLE_DEVICES": "2,3"}) == pci("c9")
    got = variables(whole, env, gpu_visibility="hip")
    assert (got["HIP_VISIBLE_DEVICES"], got["CUDA_VISIBLE_DEVICES"]) == ("6", "6")


@pytest.mark.parametrize("name", ["HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"])
@pytest.mark.parametrize("choice", ["hip", "rocr", "none"])
def test_a_user_who_named_one_gpu_for_each_rank_keeps_it(
    whole: Path, name: str, choice: str
) -> None:
    env = task(3, **{name: "5"})
    assert place(whole, env, gpu_visibility=choice) == pci("d6")
    assert variables(whole, env, gpu_visibility=choice)[name] == "5"
    assert decided(whole, env).changes().keys().isdisjoint({name})


def test_one_rank_a_node_has_all_gpus_for_the_processes_that_it_starts(whole: Path) -> None:
    env = task(0, of=1)
    assert place(whole, env) is None
    assert variables(whole, env, gpu_visibility="hip") == {"ROCR_VISIBLE_DEVICES": ALL}


def test_one_rank_a_node_that_no_launcher_multiplies_has_the_only_gpu_that_it_sees(
    whole: Path,
) -> None:
    env = task(0, of=1)
    assert place(whole, env, launcher="direct") is None
    assert place(whole, {**env, "HIP_VISIBLE_DEVICES": "5"}, launcher="direct") == pci("d6")


def test_what_torchrun_started_sees_the_gpus_that_torchrun_left_it(whole: Path) -> None:
    env = {**seen.TORCHRUN_IN_SRUN, "HIP_VISIBLE_DEVICES": "2,1"}
    decision = decided(whole, env, gpu_visibility="hip")
    assert not any("VISIBLE" in name for name in decision.changes())
    assert ("HIP_VISIBLE_DEVICES", "2,1") in [(s.name, s.value) for s in decision.settings]
    assert decision.context.gpu is not None
    assert decision.context.gpu.pci == pci(BUSES[(2, 1)[int(env["LOCAL_RANK"])]])


@pytest.mark.parametrize("platform", [{}, {"accelerator": "cpu"}])
def test_a_platform_without_gpus_is_left_alone(whole: Path, platform: dict[str, str]) -> None:
    options = Options(gpu_visibility="hip")
    decision = decide(task(9, of=16), node=Machine(whole), platform=platform, options=options)
    assert (decision.context.gpu, decision.warnings) == (None, [])


def refused(root: Path, env: dict[str, str], **options: str | bool) -> LaunchError:
    with pytest.raises(LaunchError) as caught:
        decided(root, env, **options)
    assert "--allow-gpu-sharing" in caught.value.hint
    return caught.value


def test_more_ranks_than_gpus_are_refused_alike_on_every_rank(tmp_path: Path) -> None:
    lumi_node.write(tmp_path, buses=BUSES[:7])
    errors = [refused(tmp_path, task(local, gpus=7)) for local in range(8)]
    assert len(set(map(str, errors))) == 1
    assert errors[0].what == "8 ranks on this node, but they see 7 GPUs"
    assert "the node has 7" in errors[0].where


def test_a_job_of_one_gpu_runs_one_rank(tmp_path: Path) -> None:
    lumi_node.write(tmp_path, hidden=BUSES[1:])
    error = refused(tmp_path, task(0, of=2, gpus=1))
    assert "2 ranks on this node, but they see 1 GPU" in error.what
    assert "the node has 8, this job may use 1" in error.where
    assert "--gpus-per-node=2" in error.hint


@pytest.mark.parametrize("granted", ["0", "1"])
def test_one_gpu_from_slurm_is_not_the_one_that_the_user_named_for_a_rank(
    whole: Path, granted: str
) -> None:
    env = task(0, of=2, SLURM_GPUS_ON_NODE=granted, ROCR_VISIBLE_DEVICES="5")
    assert "2 ranks on this node, but they see 1 GPU" in refused(whole, env).what


def test_a_list_of_the_user_s_that_is_too_short_is_named(whole: Path) -> None:
    error = refused(whole, task(0, HIP_VISIBLE_DEVICES="0,1"))
    assert "HIP_VISIBLE_DEVICES=0,1" in error.where
    assert "unset HIP_VISIBLE_DEVICES" in error.hint
    assert "--gpus-per-node" not in error.hint
    error = refused(whole, task(0, ROCR_VISIBLE_DEVICES="0,1", HIP_VISIBLE_DEVICES="1,0"))
    assert "unset ROCR_VISIBLE_DEVICES" in error.hint


def test_sharing_is_permitted_where_it_is_asked_for(tmp_path: Path) -> None:
    lumi_node.write(tmp_path, buses=BUSES[:4])
    shared = [place(tmp_path, task(r, gpus=4), allow_gpu_sharing=True) for r in range(8)]
    assert shared == [pci(bus) for bus in (*BUSES[:4], *BUSES[:4])]


def test_ranks_numbered_by_hand_get_a_gpu_by_their_local_rank(whole: Path) -> None:
    env = {"RANK": "9", "WORLD_SIZE": "16", "LOCAL_RANK": "1", "MASTER_ADDR": "n1"}
    assert place(whole, env) == pci("c6")
    assert "9 ranks" in refused(whole, {**env, "LOCAL_RANK": "8"}).what


def test_a_task_with_a_cgroup_of_its_own_is_warned_with_the_hint(tmp_path: Path) -> None:
    lumi_node.write(tmp_path, hidden=[bus for bus in BUSES if bus != "ce"])
    env = task(3, ROCR_VISIBLE_DEVICES="0")
    decision = decided(tmp_path, env, gpu_visibility="hip")
    (warning,) = decision.warnings
    assert "Use --gpus-per-node instead, or add --gres-flags=allow-task-sharing" in warning
    assert decision.context.gpu is not None
    assert decision.context.gpu.pci == pci("ce")
    assert "HIP_VISIBLE_DEVICES" not in decision.changes()


def test_a_task_with_two_gpus_in_its_cgroup_keeps_both(tmp_path: Path) -> None:
    lumi_node.write(tmp_path, hidden=BUSES[2:])
    decision = decided(tmp_path, task(3, of=4, ROCR_VISIBLE_DEVICES="0,1"))
    assert (len(decision.warnings), decision.context.gpu) == (1, None)


def test_tasks_that_share_their_cgroup_are_not_warned(whole: Path) -> None:
    decision = decided(whole, task(3, ROCR_VISIBLE_DEVICES="6", SLURM_STEP_GPUS="6"))
    assert decision.warnings == []
    assert decision.context.gpu is not None
    assert decision.context.gpu.pci == pci("d9")


@pytest.mark.parametrize(
    ("hidden", "gpus", "warning"),
    [
        (BUSES, None, "no GPU: this job may use none of the 8 of its node"),
        (BUSES, 8, "no GPU: Slurm gave 8, but this process may use none of the 8"),
        (None, 8, "no GPU: Slurm gave 8, but this process may use none of the 0"),
        (None, None, ""),
    ],
    ids=["a job without GPUs", "no devices in the container", "lost GPUs", "no GPUs"],
)
def test_a_rank_that_sees_no_gpu_is_warned(
    tmp_path: Path, hidden: tuple[str, ...] | None, gpus: int | None, warning: str
) -> None:
    if hidden:
        lumi_node.write(tmp_path, hidden=hidden)
    warnings = decided(tmp_path, task(0, gpus=gpus)).warnings
    assert [each[: len(warning)] for each in warnings] == ([warning] if warning else [])


def test_both_variables_with_the_number_of_the_gpu_leave_a_rank_without(whole: Path) -> None:
    both = {"HIP_VISIBLE_DEVICES": "3", "ROCR_VISIBLE_DEVICES": "3"}
    (note,) = decided(whole, task(3, **both)).context.notes
    assert "from 0" in note


@pytest.mark.parametrize("hiding", [{"HIP_VISIBLE_DEVICES": "-1"}, {"ROCR_VISIBLE_DEVICES": ""}])
def test_a_user_may_hide_all_gpus(whole: Path, hiding: dict[str, str]) -> None:
    decision = decided(whole, {**task(1, gpus=None), **hiding})
    assert (decision.context.gpu, decision.warnings, decision.context.notes) == (None, [], [])


@pytest.mark.parametrize(
    ("name", "text", "gpus"),
    [
        ("ROCR_VISIBLE_DEVICES", "2,9,3", [2]),
        ("ROCR_VISIBLE_DEVICES", "2,2,3", [2]),
        ("ROCR_VISIBLE_DEVICES", "2, 3", [2, 3]),
        ("ROCR_VISIBLE_DEVICES", "GPU-d", []),
        ("HIP_VISIBLE_DEVICES", "2,2,3", [2, 3]),
        ("HIP_VISIBLE_DEVICES", "3,x,4", [3]),
        ("HIP_VISIBLE_DEVICES", "3, 4", [3]),
        ("HIP_VISIBLE_DEVICES", "", list(range(8))),
    ],
)
def test_lists_are_read_as_rocr_and_hip_read_them(
    whole: Path, name: str, text: str, gpus: list[int]
) -> None:
    env = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "n1", name: text}
    locals_ = [{**env, "LOCAL_RANK": str(local)} for local in range(len(gpus) + 1)]
    assert [place(whole, each) for each in locals_[:-1]] == [pci(BUSES[gpu]) for gpu in gpus]
    if len(gpus) > 1:
        refused(whole, locals_[-1])
    else:  # every rank keeps the only GPU that it sees
        assert place(whole, locals_[-1]) == (pci(BUSES[gpus[0]]) if gpus else None)
