"""Checks of ranks know the nodes of ranks, in whatever order a launcher deals them out."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from . import gpu
from .breaking import caught, holds
from .gpu import Node
from .stand_in_layers import HERE

OSU = "stand_in_programs/stand_in_osu_bw"
BINDS = {HERE / OSU: "/usr/libexec/osu-micro-benchmarks/mpi/pt2pt/osu_bw"}
PLACED = """
nodes = {nodes}
node = nodes[int(os.environ.get("RANK", "0"))]
local = nodes[:int(os.environ.get("RANK", "0"))].count(node)
os.environ.update(NODE_RANK=str(node), LOCAL_RANK=str(local))
os.environ["LOCAL_WORLD_SIZE"] = str(nodes.count(node))
named = os.uname()
os.uname = lambda: os.uname_result((named[0], f"nid00500{{node}}", *named[2:]))
"""
IN_TURN, UNEVEN = [0, 1, 0, 1], [0, 1, 1, 0, 0]
"""The node of each rank: in turn, as by srun -m cyclic, or more on one than on another."""
SLOW_BETWEEN_NODES = """
import time
import torch.distributed as dist
def slowly(came, *words, group=None, **named):
    between = len({nodes[rank] for rank in dist.get_process_group_ranks(group)}) > 1
    time.sleep(came.nbytes / (2e8 if between else 50e9))
for name in ("all_reduce", "all_gather_into_tensor", "reduce_scatter_tensor", "all_to_all_single"):
    setattr(dist, name, slowly)
"""
BANDWIDTHS = ("pytorch/bandwidth_in_node", "pytorch/bandwidth_across_nodes")
LOW = {"unit": "GB/s", "minimum": 1, "reference": 1, "architecture": "gfx90a", "source": "x"}
ALL_REDUCE = {"thresholds": {"all_reduce_128MiB": LOW}}


def placed(nodes: list[int], code: str = "", changes: Mapping[str, Any] | None = None) -> Node:
    """Return nodes whose ranks, one for each of ``nodes``, are on the one of that number."""
    text = PLACED.format(nodes=nodes) + code
    count, known = len(nodes), nodes.count(0)
    return Node(text, gpus=count, known=known, binds=BINDS, changes=changes or {})


def test_only_ranks_of_one_node_are_measured_within_a_node(image: Path, tmp_path: Path) -> None:
    node = placed(IN_TURN, SLOW_BETWEEN_NODES, changes=ALL_REDUCE)
    results = gpu.verify(image, tmp_path, node, *BANDWIDTHS)
    holds(results["pytorch/bandwidth_in_node"])
    across = results["pytorch/bandwidth_across_nodes"]
    caught(across, "all_reduce_128MiB is", "less than 1 GB/s")


def test_osu_sends_to_another_node(image: Path, tmp_path: Path) -> None:
    (row,) = gpu.verify(image, tmp_path, placed(IN_TURN), "osu/bandwidth_across_nodes").values()
    holds(row)


def test_osu_does_not_take_a_node_for_two(image: Path, tmp_path: Path) -> None:
    one_name = "os.uname = lambda: named\n"
    node = placed([0, 1], one_name)
    (row,) = gpu.verify(image, tmp_path, node, "osu/bandwidth_across_nodes").values()
    caught(row, "ranks that count as two nodes are both on")


@pytest.mark.parametrize("nodes", [IN_TURN, UNEVEN], ids=["in turn", "uneven"])
def test_checks_hold_on_two_nodes(image: Path, tmp_path: Path, nodes: list[int]) -> None:
    names = ("pytorch/collectives", "pytorch/weak_scaling")
    for row in gpu.verify(image, tmp_path, placed(nodes), *names).values():
        holds(row)


def test_what_nodes_with_unequal_numbers_of_ranks_reach_is_not_judged(
    image: Path, tmp_path: Path
) -> None:
    node = placed(UNEVEN, SLOW_BETWEEN_NODES)
    for row in gpu.verify(image, tmp_path, node, *BANDWIDTHS).values():
        assert row["state"] == "skipped", row
        assert "of whole nodes, and 2 of 3 GPUs have a rank" in row["reason"]
