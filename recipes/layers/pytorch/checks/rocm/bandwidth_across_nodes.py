# /// check
# proves: collectives of PyTorch are as fast between nodes as Slingshot allows
# level: perf
# runs: ranks
# seconds: 900
# needs: {gpus: 1, nodes: 2, tasks: 2, network: cxi}
# thresholds:
#   all_reduce_128MiB:
#     unit: GB/s
#     floor: 80.75
#     reference: 85
#     of: gfx90a
#     source: >-
#       lumi-reframe-tests, checks/microbenchmarks/gpu/rccl_test.py: busbw of half numbers on 2
#       nodes (16 GCDs), -5 %
#   all_reduce_512MiB:
#     unit: GB/s
#     reference: 105
#     of: gfx90a
#     source: >-
#       lumi-reframe-tests, checks/apps/deeplearning/deepspeed_comm.py: 840 Gbit/s on 2 nodes, by
#       DeepSpeed's benchmark
# mend: >-
#   look at pytorch/network: without the plugin RCCL goes through sockets; start 8 ranks a node,
#   each with the interface next to its GPU
# ///

import _collectives
import _gpu as gpu
from lumi_inside.checking import measured

ALL = 8
"""GCDs of a LUMI-G node: the references are of whole nodes."""

ranks = gpu.Ranks()
# The references are of two nodes, so pairs of nodes are judged, all at once; the slowest counts.
pairs = [
    _collectives.Team(ranks, range(first, first + 2 * ranks.local_size))
    for first in range(0, ranks.size - ranks.local_size, 2 * ranks.local_size)
]
everybody = _collectives.Team(ranks, range(ranks.size))
own = next((pair for pair in pairs if pair.index >= 0), pairs[0])
rows, found = _collectives.bandwidths(own, "nodes")
if ranks.nodes > 2:
    rows += _collectives.bandwidths(everybody, "nodes")[0]
ranks.tell("bandwidth", rows)
if ranks.rank == 0:
    if ranks.local_size == ALL:
        measured("all_reduce_128MiB", found)
    else:
        print(f"all_reduce of 128 MiB: {found:.4g} GB/s with {ranks.local_size} GPUs of each node")
ranks.conclude([])
