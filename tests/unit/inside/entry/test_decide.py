"""Every rank gets the right numbers from the launcher that made it, and can say why."""

import itertools
import os
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumicontainer.inside.entry.decide import MARK, Decision
from lumicontainer.inside.errors import LaunchError
from lumicontainer.inside.launch.launchers import is_rank_0
from lumicontainer.inside.launch.rendezvous import port_of
from lumicontainer.inside.node.hardware import Node

from .. import seen
from ..deciding import decide


def values(env: dict[str, str]) -> dict[str, str | None]:
    return {setting.name: setting.value for setting in decide(env).settings}


def origins(decision: Decision) -> dict[str, str]:
    return {setting.name: setting.origin for setting in decision.settings}


def ranks(env: dict[str, str]) -> tuple[str | None, ...]:
    """Return rank, local rank, size, local size and rank of the node."""
    got = values(env)
    assert got["NODE_RANK"] == got["GROUP_RANK"]
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK")
    return tuple(got[name] for name in names)


def meeting_place(env: dict[str, str]) -> tuple[str | None, str | None]:
    got = values(env)
    return got["MASTER_ADDR"], got["MASTER_PORT"]


def refusal(env: dict[str, str]) -> LaunchError:
    with pytest.raises(LaunchError) as caught:
        decide(env)
    assert caught.value.code == 2
    assert all((caught.value.where, caught.value.why, caught.value.hint))
    return caught.value


STEP = [
    ("0", "0", "4", "3", "0"),
    ("1", "1", "4", "3", "0"),
    ("2", "2", "4", "3", "0"),
    ("3", "0", "4", "1", "1"),
]


@pytest.mark.parametrize("task", [seen.srun, seen.srun_pmi2, seen.srun_cray_shasta])
def test_srun_numbers_its_tasks_whatever_its_pmi_is(task) -> None:
    assert [ranks(task(rank)) for rank in range(4)] == STEP


def test_the_tasks_of_a_step_meet_on_its_first_node_at_one_port() -> None:
    assert {meeting_place(seen.srun(rank)) for rank in range(4)} == {("nid005001", "10001")}


def test_a_step_that_leaves_out_nodes_of_its_job_meets_on_a_node_of_its_own() -> None:
    env = {**seen.srun(0), "SLURM_STEP_NODELIST": "nid005002"}
    assert meeting_place(env)[0] == "nid005002"


def test_without_a_list_of_the_step_the_job_s_list_is_used() -> None:
    env = {k: v for k, v in seen.srun(0).items() if k != "SLURM_STEP_NODELIST"}
    assert meeting_place({**env, "SLURM_JOB_NODELIST": "a[07-08]"})[0] == "a07"


def test_what_srun_preserves_of_the_job_does_not_count() -> None:
    env = {**seen.srun(3), "SLURM_NTASKS": "16", "SLURM_TASKS_PER_NODE": "8(x2)"}
    assert ranks(env) == STEP[3]


def test_a_heterogeneous_step_is_one_world() -> None:
    assert ranks(seen.HETEROGENEOUS) == ("3", "1", "5", "2", "1")
    assert meeting_place(seen.HETEROGENEOUS)[0] == "nid005001"


def test_tasks_placed_by_a_host_file_ask_for_an_address() -> None:
    assert "MASTER_ADDR is not set" in refusal(seen.ARBITRARY).what
    assert meeting_place({**seen.ARBITRARY, "MASTER_ADDR": "nid005003"})[0] == "nid005003"


@pytest.mark.parametrize("shell", [seen.SALLOC, seen.BATCH, seen.INTERACTIVE])
def test_a_shell_of_slurm_is_one_process_and_says_that_srun_is_missing(shell) -> None:
    decision = decide(shell)
    assert ranks(shell) == ("0", "0", "1", "1", "0")
    assert meeting_place(shell)[0] == "127.0.0.1"
    assert "4 tasks" in decision.warnings[0]
    assert decision.warned()


def test_a_batch_shell_that_inherited_a_step_is_one_process_without_a_warning_for_one_task() -> (
    None
):
    assert ranks(seen.BATCH_FROM_A_STEP) == ("0", "0", "1", "1", "0")
    assert meeting_place(seen.BATCH_FROM_A_STEP)[0] == "127.0.0.1"
    assert decide({**seen.BATCH, "SLURM_NTASKS": "1"}).warnings == []


def test_mpiexec_numbers_its_processes_and_they_meet_on_their_machine() -> None:
    assert ranks(seen.mpiexec(1)) == ("1", "1", "2", "2", "0")
    assert meeting_place(seen.mpiexec(0)) == meeting_place(seen.mpiexec(1))
    assert meeting_place(seen.mpiexec(1))[0] == "127.0.0.1"


def test_mpiexec_in_a_batch_job_numbers_its_processes_and_slurm_does_not() -> None:
    got = [ranks(seen.mpiexec_in_batch(rank))[:4] for rank in range(4)]
    assert got == [task[:4] for task in STEP]


def test_mpiexec_in_a_batch_job_meets_on_the_job_s_first_node_apart_from_its_steps() -> None:
    places = {meeting_place(seen.mpiexec_in_batch(rank)) for rank in range(4)}
    assert len(places) == 1
    address, port = places.pop()
    assert address == "nid005001"
    assert port not in {str(port_of(1, step)) for step in range(100)}


@pytest.mark.parametrize("env", [seen.OPEN_MPI, seen.PALS])
def test_mpi_over_several_nodes_without_a_list_of_them_asks_for_an_address(env) -> None:
    assert "MASTER_ADDR is not set" in refusal(env).what
    assert ranks({**env, "MASTER_ADDR": "n1"}) == ("3", "1", "4", "2", None)


def test_a_process_manager_without_a_local_rank_asks_for_it() -> None:
    env = {"PMI_RANK": "1", "PMI_SIZE": "2", "MASTER_ADDR": "n1"}
    assert "LOCAL_RANK is not set" in refusal(env).what
    assert ranks({**env, "LOCAL_RANK": "0"}) == ("1", "0", "2", None, None)


def test_torchrun_is_left_alone_even_inside_srun() -> None:
    decision = decide(seen.TORCHRUN_IN_SRUN)
    assert decision.context.launch.name == "torchrun"
    assert decision.changes() == {MARK: "PYTHONNOUSERSITE=1", "PYTHONNOUSERSITE": "1"}
    assert values(seen.TORCHRUN_IN_SRUN)["RANK"] == "3"
    facts = [decision.context.launch.fact(name) for name in ("RANK", "LOCAL_RANK", "NODE_RANK")]
    assert facts == [3, 1, 1]


@pytest.mark.parametrize("own", ["", "0", "x"])
def test_packages_of_the_home_folder_are_kept_out_unless_the_user_says_otherwise(own: str) -> None:
    assert decide(seen.srun(0)).changes()["PYTHONNOUSERSITE"] == "1"
    given = {**seen.srun(0), "PYTHONNOUSERSITE": own}
    assert "PYTHONNOUSERSITE" not in decide(given).changes()
    assert values(given)["PYTHONNOUSERSITE"] == own


def test_without_a_launcher_there_is_one_process() -> None:
    assert ranks({}) == ("0", "0", "1", "1", "0")
    assert meeting_place({})[0] == "127.0.0.1"
    assert decide({}).warnings == []


def test_one_process_on_its_own_has_a_free_port_and_may_choose_its_gpu() -> None:
    assert len({meeting_place({})[1] for _ in range(8)}) > 1
    assert ranks({"LOCAL_RANK": "2"})[1] == "2"


def test_ranks_numbered_by_hand_are_taken_as_they_are() -> None:
    env = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "n1"}
    assert ranks(env) == ("1", "0", "2", None, None)
    assert meeting_place(env) == ("n1", "29500")


@pytest.mark.parametrize("name", ["MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS"])
@pytest.mark.parametrize("env", [{}, seen.srun(3), seen.mpiexec(1)])
def test_what_the_user_has_set_wins(env, name: str) -> None:
    decision = decide({**env, name: "77"})
    assert origins(decision)[name] == "user"
    assert {s.name: s.value for s in decision.settings}[name] == "77"
    assert name not in decision.changes()


def test_an_empty_variable_is_not_set() -> None:
    assert values({**seen.srun(0), "MASTER_ADDR": "", "WORLD_SIZE": "", "RANK": ""}) == values(
        seen.srun(0)
    )
    assert ranks({"WORLD_SIZE": ""}) == ("0", "0", "1", "1", "0")


def test_a_user_s_address_spares_the_node_list() -> None:
    env = {**seen.srun(0), "SLURM_STEP_NODELIST": "nid[", "MASTER_ADDR": "login1"}
    assert meeting_place(env)[0] == "login1"


def test_a_rank_set_inside_the_step_as_slurm_has_it_is_nothing_to_talk_about() -> None:
    decision = decide({**seen.srun(3), "RANK": "3", "LOCAL_RANK": "0", "WORLD_SIZE": "4"})
    assert decision.warnings == []
    assert origins(decision)["RANK"] == "user"


def test_a_rank_left_over_from_the_batch_script_does_not_make_every_rank_0() -> None:
    left_over = {"RANK": "0", "LOCAL_RANK": "0", "NODE_RANK": "0", "GROUP_RANK": "0"}
    decisions = [decide({**seen.srun(rank), **left_over}) for rank in range(4)]
    assert [ranks({**seen.srun(rank), **left_over}) for rank in range(4)] == STEP
    assert "RANK=0" in decisions[1].warnings[0]
    assert "RANK=1" in decisions[1].warnings[0]
    assert sum(d.warned() and bool(d.warnings) for d in decisions) == 1


def test_a_left_over_rank_that_rank_0_sees_is_reported_by_rank_0_alone() -> None:
    decisions = [decide({**seen.srun(rank), "RANK": "7"}) for rank in range(4)]
    assert [d.warned() for d in decisions] == [True, False, False, False]


@pytest.mark.parametrize("env", [seen.srun(2), seen.mpiexec(1)])
def test_a_wrong_number_of_ranks_is_refused_because_all_would_wait(env) -> None:
    assert "WORLD_SIZE=8 is set" in refusal({**env, "WORLD_SIZE": "8"}).what


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"SLURM_PROCID": "x"}, "SLURM_PROCID is not a number: 'x'"),
        ({"SLURM_PROCID": "-1"}, "SLURM_PROCID is not a number"),
        ({"SLURM_PROCID": "9" * 5000}, "SLURM_PROCID is not a number"),
        ({"SLURM_LOCALID": ""}, "SLURM_LOCALID is not set"),
        ({"SLURM_PROCID": "4"}, "RANK=4 is not below WORLD_SIZE=4"),
        ({"SLURM_LOCALID": "3"}, "LOCAL_RANK=3 is not below LOCAL_WORLD_SIZE=3"),
        ({"SLURM_STEP_TASKS_PER_NODE": "3,1(x"}, "SLURM_STEP_TASKS_PER_NODE does not give"),
        ({"SLURM_NODEID": "2"}, "SLURM_STEP_TASKS_PER_NODE does not give"),
        ({"SLURM_STEP_NODELIST": "nid[1-"}, "SLURM_STEP_NODELIST is not a list of hosts"),
        ({"SLURM_STEP_NODELIST": ","}, "SLURM_STEP_NODELIST is not a list of hosts"),
        ({"SLURM_JOB_ID": ""}, "SLURM_JOB_ID is not set"),
    ],
)
def test_a_broken_variable_of_the_launcher_is_named(change: dict[str, str], what: str) -> None:
    assert what in refusal({**seen.srun(0), **change}).what


@pytest.mark.parametrize(
    ("env", "what"),
    [
        ({"RANK": "3"}, "RANK=3 is not below WORLD_SIZE=1"),
        ({"RANK": "x"}, "RANK is not a number: 'x'"),
        ({"WORLD_SIZE": "many", "RANK": "0", "LOCAL_RANK": "0"}, "WORLD_SIZE is not a number"),
        ({"WORLD_SIZE": "2", "LOCAL_RANK": "0"}, "RANK is not set"),
        ({"WORLD_SIZE": "2", "RANK": "0", "LOCAL_RANK": "0"}, "MASTER_ADDR is not set"),
    ],
)
def test_ranks_numbered_wrongly_by_hand_are_refused(env: dict[str, str], what: str) -> None:
    assert what in refusal(env).what


@pytest.mark.parametrize("task", [seen.srun, seen.srun_pmi2, seen.mpiexec_in_batch])
def test_one_rank_speaks_for_all(task) -> None:
    assert [is_rank_0(task(rank)) for rank in range(4)] == [True, False, False, False]


def test_a_process_prints_errors_if_it_is_rank_0_or_does_not_know_its_rank() -> None:
    assert not is_rank_0({**seen.TORCHRUN_IN_SRUN, "SLURM_PROCID": "0"})
    assert is_rank_0({})
    assert is_rank_0({"RANK": "x"})


@pytest.mark.parametrize("name", ["SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID"])
def test_where_a_rank_is_no_number_the_others_decide_which_process_speaks(name: str) -> None:
    assert [is_rank_0({**seen.srun(rank), name: "x"}) for rank in range(4)].count(True) == 1


def _as_slurm_writes(counts: list[int]) -> str:
    groups = [(count, len(list(same))) for count, same in itertools.groupby(counts)]
    return ",".join(f"{count}(x{times})" if times > 1 else f"{count}" for count, times in groups)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=20), st.data())
def test_every_node_finds_its_number_of_tasks(counts: list[int], data: st.DataObject) -> None:
    node = data.draw(st.integers(0, len(counts) - 1))
    env = {
        **seen.srun(0),
        "SLURM_NODEID": str(node),
        "SLURM_STEP_NUM_TASKS": str(sum(counts)),
        "SLURM_STEP_TASKS_PER_NODE": _as_slurm_writes(counts),
    }
    assert values(env)["LOCAL_WORLD_SIZE"] == str(counts[node])


@given(st.integers(1, 2**32), st.integers(0, 1000))
def test_a_port_is_one_that_nothing_else_takes(job: int, step: int) -> None:
    # 6817 to 6819: Slurm; 29400: torchrun; 29500: PyTorch; from 32768 on: the kernel's own choice.
    assert 6819 < port_of(job, step) < 29400


@given(st.integers(1, 2**32))
def test_jobs_that_could_share_a_node_do_not_share_a_port(job: int) -> None:
    ports = [port_of(job + near, step) for near in range(250) for step in range(-1, 15)]
    assert len(set(ports)) == len(ports)


def test_9973_jobs_in_a_row_have_as_many_ports() -> None:
    assert len({port_of(17_000_000 + near, 0) for near in range(9973)}) == 9973


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_a_task_gets_as_many_threads_as_srun_gave_it_and_as_it_may_use(more: int) -> None:
    usable = len(os.sched_getaffinity(0))
    asked = max(1, usable + more)
    made = decide({**seen.srun(0), "SLURM_CPUS_PER_TASK": str(asked)}).settings
    (threads,) = (each for each in made if each.name == "OMP_NUM_THREADS")
    assert threads.value == str(min(asked, usable))
    assert ("processors only" in threads.why) == (asked > usable)


def on_a_machine(
    monkeypatch: pytest.MonkeyPatch, *, processors: int, usable: int, cgroup: int = 0
) -> None:
    """Say how many processors there are, this process runs on, and its job may use (or all)."""

    def permitted(_: Node, wanted: Iterable[int]) -> frozenset[int]:
        return frozenset(wanted) & frozenset(range(cgroup or processors))

    monkeypatch.setattr(Node, "permitted", permitted)
    monkeypatch.setattr(os, "cpu_count", lambda: processors)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(usable)))


@pytest.mark.parametrize(("processors", "share"), [(1, "1"), (3, "1"), (64, "21"), (66, "22")])
def test_ranks_that_are_not_bound_share_the_machine(
    monkeypatch: pytest.MonkeyPatch, processors: int, share: str
) -> None:
    on_a_machine(monkeypatch, processors=processors, usable=processors)
    env = seen.srun(0)
    assert values(env)["LOCAL_WORLD_SIZE"] == "3"
    assert values(env)["OMP_NUM_THREADS"] == share


def test_a_rank_that_is_bound_counts_its_processors_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    on_a_machine(monkeypatch, processors=64, usable=7)
    assert values(seen.srun(0))["OMP_NUM_THREADS"] is None
    assert "OMP_NUM_THREADS" not in decide(seen.srun(0)).changes()
    on_a_machine(monkeypatch, processors=128, usable=12, cgroup=12)
    assert values(seen.srun(0))["OMP_NUM_THREADS"] == "4"


def test_a_program_that_starts_ranks_hands_on_no_threads_of_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    on_a_machine(monkeypatch, processors=64, usable=56)
    env = {**seen.srun(0), "SLURM_CPUS_PER_TASK": "56"}
    for program in (["-m", "torch.distributed.run", "x.py"], ["--", "/opt/bin/torchrun", "x.py"]):
        assert "OMP_NUM_THREADS" not in decide(env, program=program).changes()
        kept = decide({**env, "OMP_NUM_THREADS": "7"}, program=program).settings
        assert ("OMP_NUM_THREADS", "7") in [(each.name, each.value) for each in kept]
    assert decide(env, program=["train.py"]).changes()["OMP_NUM_THREADS"] == "56"


def test_one_process_on_its_own_has_the_whole_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    on_a_machine(monkeypatch, processors=64, usable=64)
    assert "OMP_NUM_THREADS" not in values({})
