"""The needs of a check are compared with the node, and unmet needs are reported."""

from typing import Any

import pytest

from lumicontainer.inside.node.hardware import Node
from lumicontainer.inside.verify.resources import Place, alone

from .. import lumi_node, seen

BARE = Node("/nowhere")
STEP = seen.srun(3)
NO_GPU = ("gpu", "the kernel's driver shows no GPU")
MPI = {"tasks": 2, "mpi": True}


@pytest.fixture(scope="module")
def lumi(tmp_path_factory: pytest.TempPathFactory) -> Node:
    root = tmp_path_factory.mktemp("lumi")
    lumi_node.write(root)
    return Node(str(root))


@pytest.mark.parametrize(
    ("env", "needs", "unmet"),
    [
        ({}, {"gpus": 1}, NO_GPU),
        ({}, {"architecture": "gfx90a"}, NO_GPU),
        ({}, {"network": "cxi"}, ("network", "there is no network device of the kind cxi")),
        ({}, {"nodes": 2}, ("nodes", "it needs 2 nodes, but has 1")),
        ({}, {"tasks": 2}, None),
        ({}, MPI, None),
        (STEP, MPI, ("mpi", "ranks of MPI cannot meet with this launcher (use srun --mpi=pmi2)")),
        (seen.mpiexec(0, 1), {"tasks": 2}, ("ranks", "it needs 2 ranks, but has 1")),
        (seen.srun_pmi2(3), MPI, None),
    ],
)
def test_what_a_bare_machine_does_not_meet(
    env: dict[str, str], needs: dict[str, Any], unmet: tuple[str, str] | None
) -> None:
    assert Place(env, BARE).unmet_need({"runs": "ranks", "needs": needs}) == unmet


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
        ({"tasks": 5}, ("ranks", "it needs 5 ranks, but has 4")),
    ],
)
def test_two_nodes_of_lumi_meet_their_needs(
    lumi: Node, needs: dict[str, Any], unmet: tuple[str, str] | None
) -> None:
    assert Place(STEP, lumi).unmet_need({"needs": needs}) == unmet


@pytest.mark.parametrize(
    ("env", "counted"),
    [
        (STEP, 2),
        ({**STEP, "SLURM_STEP_TASKS_PER_NODE": "2(x2)"}, 2),
        ({**seen.srun(0), "SLURM_STEP_TASKS_PER_NODE": "4", "SLURM_STEP_NUM_NODES": "1"}, 1),
        ({**seen.OPEN_MPI, "OMPI_COMM_WORLD_SIZE": "9", "OMPI_COMM_WORLD_LOCAL_SIZE": "4"}, 3),
    ],
)
def test_nodes_are_counted_however_ranks_are_spread(env: dict[str, str], counted: int) -> None:
    assert Place(env, BARE).nodes == counted


def test_a_process_that_is_no_rank_gets_no_variables_of_ranks() -> None:
    env = {**seen.srun_cray_shasta(3), **seen.OPEN_MPI, "RANK": "1", "MASTER_PORT": "1"}
    kept = {"PATH": "/bin", "ROCR_VISIBLE_DEVICES": "0", "SLINGSHOT_VNIS": "1", "MPICH_DBG": "1"}
    assert alone({**env, **kept}) == kept
