"""Every rank gets the right numbers from the launcher that made it, and can say why."""

from collections.abc import Callable
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumicontainer.inside.entry.decide import MARK
from lumicontainer.inside.launch.launchers import is_rank_0
from lumicontainer.inside.launch.rendezvous import port_of

from .. import seen
from ..conftest import Env
from ..deciding import decide, refusal, settings, values

Numbers = tuple[str | None, ...]
Task = Callable[[int], dict[str, str]]


def ranks(env: Env) -> Numbers:
    """Return rank, local rank, size, local size and rank of the node."""
    got = values(env)
    assert got["NODE_RANK"] == got["GROUP_RANK"]
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK")
    return tuple(got[name] for name in names)


def meeting_place(env: Env) -> tuple[str | None, str | None]:
    got = values(env)
    return got["MASTER_ADDR"], got["MASTER_PORT"]


ALONE = (None, None, None, None, None)
"""One process without a launcher is what plain Python starts: any RANK makes nanoGPT use DDP."""
ONE = ("0", "0", "1", "1", "0")
STEP = [
    ("0", "0", "4", "3", "0"),
    ("1", "1", "4", "3", "0"),
    ("2", "2", "4", "3", "0"),
    ("3", "0", "4", "1", "1"),
]
LOOPBACK = "127.0.0.1"
OF_JOB = {"SLURM_NTASKS": "16", "SLURM_TASKS_PER_NODE": "8(x2)"}
NO_LIST = {"SLURM_STEP_NODELIST": "", "SLURM_JOB_NODELIST": "a[07-08]"}
BROKEN_LIST = {"SLURM_STEP_NODELIST": "nid[", "MASTER_ADDR": "login1"}
PMI = {"PMI_RANK": "1", "PMI_SIZE": "2", "MASTER_ADDR": "n1"}


@pytest.mark.parametrize("task", [seen.srun, seen.srun_pmi2, seen.srun_cray_shasta])
def test_srun_numbers_its_tasks_whatever_its_pmi_is(task: Task) -> None:
    assert [ranks(task(rank)) for rank in range(4)] == STEP
    assert {meeting_place(task(rank)) for rank in range(4)} == {("nid005001", "10001")}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env", "numbers", "address"),
    [
        pytest.param({}, ALONE, None, id="no launcher"),
        pytest.param({"RANK": "0"}, ONE, LOOPBACK, id="one rank by hand"),
        pytest.param({"LOCAL_RANK": "2"}, (None, "2", *ALONE[2:]), None, id="a chosen GPU"),
        pytest.param(seen.BATCH_FROM_A_STEP, ONE, LOOPBACK, id="a batch shell from a step"),
        pytest.param({**seen.srun(3), **OF_JOB}, STEP[3], "nid005001", id="what srun preserves"),
        pytest.param({**seen.srun(0), **NO_LIST}, STEP[0], "a07", id="a job's list of nodes"),
        pytest.param({**seen.srun(0), **BROKEN_LIST}, STEP[0], "login1", id="a user's address"),
        pytest.param(
            {**seen.srun(0), "SLURM_STEP_NODELIST": "nid005002"},
            STEP[0],
            "nid005002",
            id="a step that leaves out the first node of its job",
        ),
        pytest.param(
            seen.HETEROGENEOUS, ("3", "1", "5", "2", "1"), "nid005001", id="a heterogeneous step"
        ),
        pytest.param(seen.mpiexec(1), ("1", "1", "2", "2", "0"), LOOPBACK, id="mpiexec"),
        *(
            pytest.param({**env, "MASTER_ADDR": "n1"}, ("3", "1", "4", "2", None), "n1", id=name)
            for name, env in (("Open MPI", seen.OPEN_MPI), ("PALS", seen.PALS))
        ),
        pytest.param({**PMI, "LOCAL_RANK": "0"}, ("1", "0", "2", None, None), "n1", id="PMI"),
        pytest.param(seen.BY_HAND, ("9", "1", "16", None, None), "n1", id="numbered by hand"),
    ],
)
def test_a_process_has_the_numbers_of_its_launch(
    env: Env, numbers: Numbers, address: str | None
) -> None:
    assert (ranks(env), meeting_place(env)[0]) == (numbers, address)


@pytest.mark.parametrize("env", [seen.mpiexec(0), seen.mpiexec(1), seen.BY_HAND])
def test_ranks_without_an_id_of_their_run_meet_at_pytorch_s_port(env: Env) -> None:
    assert meeting_place(env)[1] == "29500"


@pytest.mark.slow
def test_a_lone_rank_has_a_free_port() -> None:
    assert len({meeting_place({"RANK": "0"})[1] for _ in range(8)}) > 1


def test_one_process_without_a_launcher_gets_no_variable_of_ranks() -> None:
    assert decide({}).changes() == {MARK: "PYTHONNOUSERSITE=1", "PYTHONNOUSERSITE": "1"}


LOCAL = (
    *("localhost", "localhost.localdomain", "127.0.0.1", "127.0.1.1", "::1", "0.0.0.0"),
    *("127.1", "2130706433", "::ffff:127.0.0.1", "0:0::1"),
)


@pytest.mark.parametrize("address", LOCAL)
def test_an_address_that_is_each_node_s_own_is_refused_by_all_ranks(address: str) -> None:
    for rank in range(4):
        error = refusal({**seen.srun(rank), "MASTER_ADDR": address})
        assert (
            error.what == f"MASTER_ADDR={address} is each node's own address, but there are 2 nodes"
        )


@pytest.mark.parametrize("env", [seen.mpiexec(1), {**seen.srun(0), **seen.step(0, "a", 3, "3", 1)}])
def test_ranks_of_one_node_may_meet_at_its_own_address(env: Env) -> None:
    decision = decide({**env, "MASTER_ADDR": "localhost"})
    assert (settings(decision)["MASTER_ADDR"].value, decision.warnings) == ("localhost", [])


def test_the_name_of_each_task_s_own_node_is_refused_off_the_first_and_said_once() -> None:
    """On the first node it is the right one, and nothing there tells that others have theirs."""
    step = seen.step(0, "nid[005001-005002]", 5, "3,2", 2)
    last = {**seen.srun(3), **seen.task(4, 1, 1)}
    first, *others = [
        {**task, **step, "MASTER_ADDR": task["SLURMD_NODENAME"]}
        for task in (seen.srun(0), seen.srun(3), last)
    ]
    assert settings(decide(first))["MASTER_ADDR"].value == "nid005001"
    errors = [refusal(task) for task in others]
    assert {error.what for error in errors} == {
        "MASTER_ADDR=nid005002 is a node without rank 0, which is on nid005001"
    }
    assert [error.shown for error in errors] == [True, False]
    assert "srun --kill-on-bad-exit=1" in errors[0].hint


def test_the_name_of_a_node_without_rank_0_is_refused_on_the_first_node_too() -> None:
    error = refusal({**seen.srun(0), "MASTER_ADDR": "nid005002-hsn0"})
    assert error.what.endswith("is a node without rank 0, which is on nid005001")
    assert error.shown


@pytest.mark.parametrize(
    ("address", "warned"),
    [
        ("nid005001", False),
        ("nid005001-hsn0", False),
        ("NID005001.lumi.csc.fi", False),
        ("192.0.2.7", False),
        ("nid0050010", True),
        ("login1", True),
    ],
)
def test_a_name_that_no_node_has_is_kept_with_a_warning(address: str, warned: bool) -> None:
    decision = decide({**seen.srun(0), "MASTER_ADDR": address})
    assert settings(decision)["MASTER_ADDR"].value == address
    assert [f"MASTER_ADDR={address} is kept" in each for each in decision.warnings] == [
        True
    ] * warned


@pytest.mark.parametrize("port", ["0", "65536", "29500\n", "http", "-1", "2950O", "\u0664"])
@pytest.mark.parametrize("env", [seen.srun(3), seen.mpiexec(1), seen.BY_HAND])
def test_an_invalid_port_is_refused(env: Env, port: str) -> None:
    error = refusal({**env, "MASTER_PORT": port})
    assert error.what.startswith("MASTER_PORT is not a port: ")
    assert error.what.isprintable()


def test_mpiexec_in_a_batch_job_numbers_its_ranks_which_meet_apart_from_steps_of_slurm() -> None:
    tasks = [seen.mpiexec_in_batch(rank) for rank in range(4)]
    assert [ranks(task)[:4] for task in tasks] == [numbers[:4] for numbers in STEP]
    ((address, port),) = {meeting_place(task) for task in tasks}
    assert address == "nid005001"
    assert port not in {str(port_of(1, step)) for step in range(100)}


@pytest.mark.parametrize("shell", [seen.SALLOC, seen.BATCH, seen.INTERACTIVE])
def test_a_shell_of_slurm_is_one_process_and_says_that_srun_is_missing(shell: Env) -> None:
    assert (ranks(shell), meeting_place(shell)[0]) == (ALONE, None)
    assert "4 tasks" in decide(shell).warnings[0]
    assert decide(shell).warned()


@pytest.mark.parametrize("env", [{}, {**seen.BATCH, "SLURM_NTASKS": "1"}])
def test_one_process_of_one_task_gets_no_warning(env: Env) -> None:
    assert decide(env).warnings == []


def test_torchrun_is_left_alone_even_inside_srun() -> None:
    decision = decide(seen.TORCHRUN_IN_SRUN)
    launch = decision.context.launch
    assert launch.name == "torchrun"
    assert decision.changes() == {MARK: "PYTHONNOUSERSITE=1", "PYTHONNOUSERSITE": "1"}
    assert values(seen.TORCHRUN_IN_SRUN)["RANK"] == "3"
    assert [launch.fact(name) for name in ("RANK", "LOCAL_RANK", "NODE_RANK")] == [3, 1, 1]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS", "PYTHONNOUSERSITE"]
)
@pytest.mark.parametrize("env", [{"RANK": "0"}, seen.srun(3), seen.mpiexec(1)])
def test_what_the_user_has_set_wins(env: Env, name: str) -> None:
    decision = decide({**env, name: "77"})
    setting = settings(decision)[name]
    assert (setting.value, setting.origin) == ("77", "user")
    assert name not in decision.changes()


def test_an_empty_variable_is_not_set() -> None:
    empty = {"MASTER_ADDR": "", "WORLD_SIZE": "", "RANK": ""}
    assert values({**seen.srun(0), **empty}) == values(seen.srun(0))


def test_a_rank_set_inside_the_step_as_slurm_has_it_is_nothing_to_talk_about() -> None:
    decision = decide({**seen.srun(3), "RANK": "3", "LOCAL_RANK": "0", "WORLD_SIZE": "4"})
    assert decision.warnings == []
    assert settings(decision)["RANK"].origin == "user"


def test_a_rank_left_over_from_the_batch_script_does_not_make_every_rank_0() -> None:
    left_over = {"RANK": "0", "LOCAL_RANK": "0", "NODE_RANK": "0", "GROUP_RANK": "0"}
    tasks = [{**seen.srun(rank), **left_over} for rank in range(4)]
    assert [ranks(task) for task in tasks] == STEP
    decisions = [decide(task) for task in tasks]
    assert "RANK=0" in decisions[1].warnings[0]
    assert "RANK=1" in decisions[1].warnings[0]
    assert sum(d.warned() and bool(d.warnings) for d in decisions) == 1


def test_a_left_over_rank_that_rank_0_sees_is_reported_by_rank_0_alone() -> None:
    decisions = [decide({**seen.srun(rank), "RANK": "7"}) for rank in range(4)]
    assert [d.warned() for d in decisions] == [True, False, False, False]


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
        ({"WORLD_SIZE": "8"}, "WORLD_SIZE=8 is set"),
    ],
)
def test_a_broken_variable_of_the_launcher_is_named(change: Env, what: str) -> None:
    assert what in refusal({**seen.srun(0), **change}).what


@pytest.mark.parametrize(
    ("env", "what"),
    [
        ({"RANK": "3"}, "RANK=3 is not below WORLD_SIZE=1"),
        ({"RANK": "x"}, "RANK is not a number: 'x'"),
        ({"WORLD_SIZE": "many", "RANK": "0", "LOCAL_RANK": "0"}, "WORLD_SIZE is not a number"),
        ({"WORLD_SIZE": "2", "LOCAL_RANK": "0"}, "RANK is not set"),
        ({"WORLD_SIZE": "2", "RANK": "0", "LOCAL_RANK": "0"}, "MASTER_ADDR is not set"),
        (seen.ARBITRARY, "MASTER_ADDR is not set"),
        (seen.OPEN_MPI, "MASTER_ADDR is not set"),
        (seen.PALS, "MASTER_ADDR is not set"),
        (PMI, "LOCAL_RANK is not set"),
        ({**seen.mpiexec(1), "WORLD_SIZE": "8"}, "WORLD_SIZE=8 is set"),
    ],
)
def test_numbers_that_are_wrong_or_not_enough_are_refused(env: Env, what: str) -> None:
    assert what in refusal(env).what


@pytest.mark.parametrize("task", [seen.srun, seen.srun_pmi2, seen.mpiexec_in_batch])
def test_one_rank_speaks_for_all(task: Task) -> None:
    assert [is_rank_0(task(rank)) for rank in range(4)] == [True, False, False, False]


def test_a_process_prints_errors_if_it_is_rank_0_or_does_not_know_its_rank() -> None:
    assert not is_rank_0({**seen.TORCHRUN_IN_SRUN, "SLURM_PROCID": "0"})
    assert is_rank_0({})
    assert is_rank_0({"RANK": "x"})


@pytest.mark.parametrize("name", ["SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID"])
def test_where_a_rank_is_no_number_the_others_decide_which_process_speaks(name: str) -> None:
    assert [is_rank_0({**seen.srun(rank), name: "x"}) for rank in range(4)].count(True) == 1


@pytest.mark.slow
@given(st.lists(st.integers(1, 4), min_size=1, max_size=20), st.data())
def test_every_node_finds_its_number_of_tasks(counts: list[int], data: st.DataObject) -> None:
    node = data.draw(st.integers(0, len(counts) - 1))
    groups = [(count, len(list(same))) for count, same in groupby(counts)]
    env = {
        **seen.srun(0),
        "SLURM_NODEID": str(node),
        "SLURM_STEP_NUM_TASKS": str(sum(counts)),
        "SLURM_STEP_TASKS_PER_NODE": ",".join(
            f"{count}(x{times})" if times > 1 else f"{count}" for count, times in groups
        ),
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
