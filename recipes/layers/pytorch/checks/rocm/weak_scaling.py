# /// check
# summary: >-
#   a step of training gives finite gradients on one node to all nodes of the job; how much of its
#   speed it keeps is reported
# level: perf
# runs: ranks
# timeout_seconds: 900
# needs: {gpus: 1, nodes: 2, tasks: 2}
# thresholds:
#   two_nodes:
#     unit: of one node
#     reference: 1
#     architecture: gfx90a
#     source: a step that costs nothing more; no figure is public for this step
#   all_nodes:
#     unit: of one node
#     reference: 0.8
#     architecture: gfx90a
#     source: >-
#       LUMI, Scaling the pre-training of large language models: 768 nodes keep about 80 % of the
#       speed a GPU; another program
# hint: check pytorch/bandwidth_across_nodes and pytorch/network
# ///

# Not judged: no figure is public for just this step. A step is forward and backward through a few
# blocks as Llama-2-7B's, and an all_reduce of the gradients, on 1, 2, 4 … nodes at a time.

import time
from itertools import chain

import _blocks
import _gpu as gpu
import torch
import torch.distributed as dist
from lumi_inside.checking import measured
from torch._utils import _flatten_dense_tensors

ROUNDS = 5


def counts(nodes):
    """Return on how many nodes to measure: 1, 2, 4 … and all."""
    powers = [1 << power for power in range(nodes.bit_length())]
    return [*(each for each in powers if each < nodes), nodes]


def speed(ranks, stack, group):
    """Return the operations a second of each GPU, in TFLOP/s, of the slowest rank of all."""

    def step():
        stack.step()
        gradients = _flatten_dense_tensors([each.grad for each in stack.model.parameters()])
        dist.all_reduce(gradients, group=group)

    step()
    ranks.meet()
    begun = time.perf_counter()
    for _ in range(ROUNDS):
        step()
    gpu.wait(ranks.device)
    taken = (time.perf_counter() - begun) / ROUNDS
    return stack.operations() / ranks.gathered(taken, max) / 1e12


ranks = gpu.Ranks()
stack = _blocks.Stack(ranks.device)
speeds = {}
for nodes in counts(ranks.nodes):
    # The last group may be smaller; all groups run at once, so none is left idle.
    firsts = range(0, ranks.nodes, nodes)
    parts = [list(chain(*ranks.on_nodes[first : first + nodes])) for first in firsts]
    groups = [dist.new_group(part, backend=ranks.backend) for part in parts]
    own = next(g for g, part in zip(groups, parts, strict=True) if ranks.rank in part)
    speeds[nodes] = speed(ranks, stack, own)
rows = [
    {"nodes": nodes, "TFLOP/s of each GPU": round(each, 3), "ratio": round(each / speeds[1], 3)}
    for nodes, each in speeds.items()
]
ranks.note("scaling", rows)
if ranks.rank == 0:
    measured("two_nodes", speeds.get(2, speeds[ranks.nodes]) / speeds[1])
    measured("all_nodes", speeds[ranks.nodes] / speeds[1])
bad = not all(bool(torch.isfinite(each.grad).all()) for each in stack.model.parameters())
ranks.conclude(["gradients are not finite"] if bad else [])
