"""The needs of a check are compared with the node, and unmet needs are reported."""

from pathlib import Path
from typing import Any

import pytest

from lumicontainer.inside.node.hardware import Node
from lumicontainer.inside.verify.resources import Place, alone

from .. import lumi_node

STEP = {
    "SLURM_JOB_ID": "1",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "5",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "1",
    "SLURM_STEP_NUM_NODES": "2",
    "SLURM_STEP_NUM_TASKS": "8",
    "SLURM_STEP_TASKS_PER_NODE": "4(x2)",
}


@pytest.fixture(scope="module")
def lumi(tmp_path_factory: pytest.TempPathFactory) -> Node:
    root = tmp_path_factory.mktemp("lumi")
    lumi_node.write(root)
    return Node(str(root))


def bare(tmp_path: Path) -> Node:
    return Node(str(tmp_path))


@pytest.mark.parametrize(
    ("needs", "kind", "words"),
    [
        ({"gpus": 1}, "gpu", "the kernel's driver shows no GPU"),
        ({"architecture": "gfx90a"}, "gpu", "the kernel's driver shows no GPU"),
        ({"network": "cxi"}, "network", "there is no network device of the kind cxi"),
        ({"nodes": 2}, "nodes", "it needs 2 nodes, but has 1"),
    ],
)
def test_a_bare_machine_does_not_meet_these_needs(
    tmp_path: Path, needs: dict[str, Any], kind: str, words: str
) -> None:
    assert Place({}, bare(tmp_path)).unmet_need({"needs": needs}) == (kind, words)


@pytest.mark.parametrize(
    ("needs", "unmet"),
    [
        ({}, None),
        ({"gpus": 8, "architecture": "gfx90a"}, None),
        ({"network": "cxi"}, None),
        ({"nodes": 2}, None),
        ({"gpus": 9}, ("gpu", "it needs 9 GPUs a node, but has 8")),
        ({"architecture": "gfx942"}, ("gpu", "it is for gfx942, but the GPUs are gfx90a")),
        ({"nodes": 3}, ("nodes", "it needs 3 nodes, but has 2")),
        ({"tasks": 9}, ("ranks", "it needs 9 ranks, but has 8")),
    ],
)
def test_two_nodes_of_lumi_meet_their_needs(
    lumi: Node, needs: dict[str, Any], unmet: tuple[str, str] | None
) -> None:
    assert Place(STEP, lumi).unmet_need({"needs": needs}) == unmet


def test_ranks_are_missing_under_a_launcher_only(tmp_path: Path) -> None:
    check = {"runs": "ranks", "needs": {"tasks": 2}}
    assert Place({}, bare(tmp_path)).unmet_need(check) is None
    one = {**STEP, "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1", "SLURM_NODEID": "0"}
    unmet = Place({**one, "SLURM_STEP_TASKS_PER_NODE": "1"}, bare(tmp_path)).unmet_need(check)
    assert unmet == ("ranks", "it needs 2 ranks, but has 1")


def test_mpi_is_missing_where_srun_offers_none(tmp_path: Path) -> None:
    check = {"runs": "ranks", "needs": {"tasks": 2, "mpi": True}}
    unmet = Place(STEP, bare(tmp_path)).unmet_need(check)
    assert unmet is not None
    assert unmet[0] == "mpi"
    assert "--mpi=pmi2" in unmet[1]
    assert Place({**STEP, "PMI_FD": "13"}, bare(tmp_path)).unmet_need(check) is None
    assert Place({}, bare(tmp_path)).unmet_need(check) is None


@pytest.mark.parametrize(
    ("spread", "nodes", "counted"), [("3,1", "2", 2), ("4(x2)", "2", 2), ("8", "1", 1)]
)
def test_nodes_are_counted_however_ranks_are_spread(
    tmp_path: Path, spread: str, nodes: str, counted: int
) -> None:
    env = {**STEP, "SLURM_STEP_TASKS_PER_NODE": spread, "SLURM_STEP_NUM_NODES": nodes}
    env |= {"SLURM_NODEID": "0", "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "4"}
    assert Place(env, bare(tmp_path)).nodes == counted


def test_nodes_of_a_launcher_other_than_slurm_follow_from_its_ranks(tmp_path: Path) -> None:
    env = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "9"}
    env |= {"OMPI_COMM_WORLD_LOCAL_RANK": "0", "OMPI_COMM_WORLD_LOCAL_SIZE": "4"}
    assert Place(env, bare(tmp_path)).nodes == 3


def test_a_process_that_is_no_rank_gets_no_variables_of_ranks() -> None:
    env = {**STEP, "PMI_FD": "3", "RANK": "1", "MASTER_PORT": "1", "OMPI_COMM_WORLD_RANK": "1"}
    kept = {"PATH": "/bin", "ROCR_VISIBLE_DEVICES": "0", "SLINGSHOT_VNIS": "1", "MPICH_DBG": "1"}
    assert alone({**env, **kept}) == kept
