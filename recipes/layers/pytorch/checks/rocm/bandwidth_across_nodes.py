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

NAMES = {"all_reduce_128MiB": 128 * gpu.MIB, "all_reduce_512MiB": 512 * gpu.MIB}

ranks = gpu.Ranks()
# The references are of two nodes, so pairs of nodes are judged, all at once; the slowest counts.
pairs = [
    _collectives.Team(ranks, range(first, first + 2 * ranks.local_size))
    for first in range(0, ranks.size - ranks.local_size, 2 * ranks.local_size)
]
everybody = _collectives.Team(ranks, range(ranks.size))
own = next((pair for pair in pairs if pair.index >= 0), pairs[0])
series = _collectives.bandwidths(own)
title = f"pairs of nodes: {2 * ranks.local_size} ranks, half precision"
pictures = [_collectives.picture(title, series, *NAMES)]
if ranks.nodes > 2:
    title = f"all {ranks.nodes} nodes: {ranks.size} ranks, half precision"
    pictures.append(_collectives.picture(title, _collectives.bandwidths(everybody)))
ranks.tell("bandwidth", pictures)
if ranks.rank == 0 and _collectives.whole_nodes(ranks):
    for name, size in NAMES.items():
        found = _collectives.at(series, size)
        if found is not None:
            measured(name, found)
ranks.conclude([])
