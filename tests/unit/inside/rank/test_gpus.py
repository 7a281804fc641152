"""Every rank gets its own GPU, whatever Slurm and the user have hidden before."""

from pathlib import Path

import pytest

from lumicontainer.inside.entry.decide import Decision
from lumicontainer.inside.errors import LaunchError
from lumicontainer.inside.rank.context import Context, Options
from lumicontainer.inside.rank.gpus import Visible

from .. import deciding, lumi_node, seen
from ..conftest import Env
from ..deciding import decide
from ..lumi_node import BUSES, PLATFORM, Machine, pci

ROCR, HIP, CUDA = (f"{name}_VISIBLE_DEVICES" for name in ("ROCR", "HIP", "CUDA"))
ALL = "0,1,2,3,4,5,6,7"
ORDER = "4,5,2,3,6,7,0,1"
"""The user's own order of all GPUs."""
CHOICES = ("hip", "rocr", "none")
Node = dict[str, tuple[str, ...]]


def task(local: int, of: int = 8, gpus: int | None = 8, **env: str) -> dict[str, str]:
    """Return a task of a step on one node, to which Slurm gave a number of GPUs."""
    step = seen.step(0, "nid005001", of, str(of), 1)
    slurm = {**seen.srun(0), **seen.task(local, local, 0), **step}
    if gpus is not None:
        slurm["SLURM_GPUS_ON_NODE"] = str(gpus)
        slurm[ROCR] = ",".join(map(str, range(gpus)))
    return {**slurm, **env}


def decided(root: Path, env: Env, **options: str | bool) -> Decision:
    return decide(env, node=Machine(root), platform=PLATFORM, options=Options(**options))


def place(root: Path, env: Env, **options: str | bool) -> str | None:
    gpu = decided(root, env, **options).context.gpu
    return gpu.pci if gpu else None


def variables(root: Path, env: Env, **options: str | bool) -> dict[str, str]:
    """Return what a rank gets of the three variables that hide GPUs."""
    changed = {**env, **decided(root, env, **options).changes()}
    return {name: changed[name] for name in (ROCR, HIP, CUDA) if name in changed}


def refused(root: Path, env: Env) -> LaunchError:
    error = deciding.refusal(env, node=Machine(root), platform=PLATFORM)
    assert "--allow-gpu-sharing" in error.hint
    return error


def test_each_local_rank_has_the_gpu_of_its_number(whole: Path) -> None:
    assert [place(whole, task(local)) for local in range(8)] == [pci(bus) for bus in BUSES]


FOUR = task(1, of=4, gpus=4, **{ROCR: "4,5,2,3"})
UUIDS = task(1, of=2, gpus=2, **{ROCR: "GPU-d6,GPU-C1"})
OF_CUDA = task(0, of=2, **{CUDA: "6,7"})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env", "choice", "gpu", "hiding"),
    [
        pytest.param(task(3), "none", 3, {ROCR: ALL}, id="all GPUs, as under torchrun"),
        pytest.param(task(3), "hip", 3, {ROCR: ALL, HIP: "3"}, id="one for HIP, all for ROCr"),
        pytest.param(task(3), "rocr", 3, {ROCR: "3"}, id="one for ROCr"),
        pytest.param(
            task(3, **{HIP: ALL}), "rocr", 3, {ROCR: "3", HIP: "0"}, id="HIP counts it as 0"
        ),
        pytest.param(FOUR, "hip", 5, {ROCR: "4,5,2,3", HIP: "1"}, id="HIP counts what Slurm left"),
        pytest.param(FOUR, "rocr", 5, {ROCR: "5"}, id="ROCr counts all"),
        pytest.param(UUIDS, "hip", 0, {ROCR: UUIDS[ROCR], HIP: "1"}, id="UUIDs"),
        pytest.param(task(0, **{HIP: ORDER}), "none", 4, {ROCR: ALL, HIP: ORDER}, id="an order"),
        pytest.param(task(0, **{HIP: ORDER}), "hip", 4, {ROCR: ALL, HIP: "4"}, id="first of it"),
        pytest.param(OF_CUDA, "hip", 6, {ROCR: ALL, HIP: "6", CUDA: "6"}, id="CUDA's variable"),
        pytest.param(
            {**OF_CUDA, HIP: "2,3"},
            "none",
            2,
            {ROCR: ALL, HIP: "2,3", CUDA: "6,7"},
            id="HIP's wins",
        ),
        *((task(3, **{HIP: "5"}), choice, 5, {ROCR: ALL, HIP: "5"}) for choice in CHOICES),
        *((task(3, **{ROCR: "5"}), choice, 5, {ROCR: "5"}) for choice in CHOICES),
        pytest.param(task(0, of=1), "hip", None, {ROCR: ALL}, id="one rank for all GPUs"),
        pytest.param(seen.BY_HAND, "none", 1, {}, id="ranks numbered by hand"),
    ],
)
def test_a_rank_has_its_gpu_and_hides_others_as_asked(
    whole: Path, env: Env, choice: str, gpu: int | None, hiding: Env
) -> None:
    assert place(whole, env, gpu_visibility=choice) == (None if gpu is None else pci(BUSES[gpu]))
    assert variables(whole, env, gpu_visibility=choice) == hiding


@pytest.mark.parametrize(
    ("hidden", "env", "gpu", "warned"),
    [
        pytest.param(BUSES[:4], task(1, of=4, gpus=4), "d6", False, id="of the job"),
        pytest.param(BUSES[1:], task(3, **{ROCR: "0"}), "c1", True, id="of the task, one GPU"),
        pytest.param(BUSES[2:], task(3, of=4, **{ROCR: "0,1"}), None, True, id="of it, two GPUs"),
        pytest.param((), task(3, SLURM_STEP_GPUS="6", **{ROCR: "6"}), "d9", False, id="shared"),
    ],
)
def test_gpus_are_counted_in_a_cgroup_and_one_for_each_task_gets_a_warning(
    tmp_path: Path, hidden: tuple[str, ...], env: Env, gpu: str | None, warned: bool
) -> None:
    lumi_node.write(tmp_path, hidden=hidden)
    assert place(tmp_path, env) == (pci(gpu) if gpu else None)
    hint = "Use --gpus-per-node instead, or add --gres-flags=allow-task-sharing"
    assert [hint in text for text in decided(tmp_path, env).warnings] == [True] * warned
    if warned:
        assert variables(tmp_path, env, gpu_visibility="hip") == {ROCR: env[ROCR]}


@pytest.mark.parametrize(("choice", "number"), [("none", "3"), ("hip", "0"), ("rocr", "0")])
def test_jax_takes_the_gpu_of_its_rank(whole: Path, choice: str, number: str) -> None:
    platform = {**PLATFORM, "layers": {"jax": "0.6.0"}}
    options = Options(gpu_visibility=choice)
    decision = decide(task(3), node=Machine(whole), platform=platform, options=options)
    assert decision.changes()["JAX_LOCAL_DEVICE_IDS"] == number


def test_an_image_without_jax_gets_no_variable_of_it(whole: Path) -> None:
    assert not any(name.startswith("JAX") for name in decided(whole, task(3)).changes())


@pytest.mark.slow
def test_one_rank_that_no_launcher_multiplies_has_the_only_gpu_that_it_sees(whole: Path) -> None:
    env = task(0, of=1)
    assert place(whole, env, launcher="direct") is None
    assert place(whole, {**env, HIP: "5"}, launcher="direct") == pci("d6")


def test_what_torchrun_started_sees_the_gpus_that_torchrun_left_it(whole: Path) -> None:
    env = {**seen.TORCHRUN_IN_SRUN, "LOCAL_RANK": "0", HIP: "2,1"}
    assert place(whole, env) == pci("c9")
    for choice in CHOICES:
        decision = decided(whole, env, gpu_visibility=choice)
        assert not any("VISIBLE" in name for name in decision.changes())
        assert ["is ignored" in text for text in decision.warnings] == [True] * (choice != "none")
    assert deciding.settings(decision)[HIP].value == "2,1"


def test_more_ranks_than_gpus_are_refused_alike_on_every_rank(tmp_path: Path) -> None:
    lumi_node.write(tmp_path, buses=BUSES[:7])
    errors = [refused(tmp_path, task(local, gpus=7)) for local in range(8)]
    assert len(set(map(str, errors))) == 1
    assert errors[0].what == "8 ranks on this node, but they see 7 GPUs"
    assert "the node has 7" in errors[0].where
    assert errors[0].local, "the other nodes may have all of theirs"


ONE = "2 ranks on this node, but they see 1 GPU"


@pytest.mark.parametrize(
    ("hidden", "env", "what"),
    [
        (BUSES[1:], task(0, of=2, gpus=1), (ONE, "has 8, this job may use 1", "-per-node=2")),
        ((), task(0, of=2, SLURM_GPUS_ON_NODE="0", **{ROCR: "5"}), (ONE,)),
        ((), task(0, of=2, SLURM_GPUS_ON_NODE="1", **{ROCR: "5"}), (ONE,)),
        ((), task(0, **{HIP: "0,1"}), (f"{HIP}=0,1", f"unset {HIP}")),
        ((), task(0, **{ROCR: "0,1", HIP: "1,0"}), (f"unset {ROCR}",)),
        ((), {**seen.BY_HAND, "LOCAL_RANK": "8"}, ("9 ranks",)),
    ],
)
def test_ranks_that_would_share_gpus_are_refused_with_what_hides_the_others(
    tmp_path: Path, hidden: tuple[str, ...], env: Env, what: tuple[str, ...]
) -> None:
    lumi_node.write(tmp_path, hidden=hidden)
    error = str(refused(tmp_path, env))
    assert [text for text in what if text not in error] == []


def test_sharing_is_permitted_on_request(tmp_path: Path) -> None:
    lumi_node.write(tmp_path, buses=BUSES[:4])
    shared = [place(tmp_path, task(r, gpus=4), allow_gpu_sharing=True) for r in range(8)]
    assert shared == [pci(bus) for bus in (*BUSES[:4], *BUSES[:4])]


HIDDEN: Node = {"hidden": BUSES}
NO_GPUS: Node = {"buses": ()}


@pytest.mark.parametrize(
    ("node", "env", "warning"),
    [
        (HIDDEN, task(0, gpus=None), "no GPU: this job may use none of the 8 of its node"),
        (HIDDEN, task(0), "no GPU: Slurm gave 8, but this process may use none of the 8"),
        (NO_GPUS, task(0), "no GPU: Slurm gave 8, but this process may use none of the 0"),
        (NO_GPUS, task(0, gpus=None), ""),
        pytest.param({}, task(3, **{HIP: "3", ROCR: "3"}), "from 0", id="both count to 3"),
        pytest.param({}, task(1, gpus=None, **{HIP: "-1"}), "", id="the user hides all of HIP"),
        pytest.param({}, task(1, gpus=None, **{ROCR: ""}), "", id="the user hides all of ROCr"),
    ],
)
def test_a_rank_that_sees_no_gpu_is_warned(
    tmp_path: Path, node: Node, env: Env, warning: str
) -> None:
    decision = decided(lumi_node.write(tmp_path, **node), env)
    assert decision.context.gpu is None
    warnings = decision.warnings + decision.context.notes
    assert [warning in each for each in warnings] == [True] * bool(warning)


def test_each_node_whose_gpus_are_gone_says_so_once(tmp_path: Path) -> None:
    lumi_node.write(tmp_path, buses=())
    notes = [decided(tmp_path, task(local)).context.notes for local in range(8)]
    assert [len(each) for each in notes] == [1, *[0] * 7]


@pytest.mark.parametrize(
    ("name", "text", "gpus"),
    [
        (ROCR, "2,9,3", [2]),
        (ROCR, "2,2,3", [2]),
        (ROCR, "2, 3", [2, 3]),
        (ROCR, "GPU-d", []),
        (HIP, "2,2,3", [2, 3]),
        (HIP, "3,x,4", [3]),
        (HIP, "3, 4", [3]),
        (HIP, "", list(range(8))),
    ],
)
def test_lists_are_read_as_rocr_and_hip(whole: Path, name: str, text: str, gpus: list[int]) -> None:
    visible = Visible(Context({name: text}, node=Machine(whole)))
    assert [gpu.pci for gpu in visible.by_hip] == [pci(BUSES[gpu]) for gpu in gpus]


@pytest.mark.parametrize(
    ("name", "number", "text"),
    [
        (HIP, 0, "the first one: if all ranks have this list, they share it"),
        (ROCR, 0, "the first one: if all ranks have this list, they share it"),
        (HIP, 1, "a program that uses number LOCAL_RANK=1 finds none"),
    ],
)
def test_a_list_of_one_gpu_is_named_by_one_rank(
    whole: Path, name: str, number: int, text: str
) -> None:
    (note,) = decided(whole, task(1, **{name: str(number)})).context.notes
    assert note.startswith(f"warning: rank 1 sees one GPU, {pci(BUSES[number])}")
    assert text in note


@pytest.mark.parametrize("local", [0, 2, 7])
def test_other_ranks_with_a_list_of_one_gpu_are_silent(whole: Path, local: int) -> None:
    assert decided(whole, task(local, **{HIP: "0"})).context.notes == []
