# /// check
# summary: collectives of PyTorch are as fast between nodes as Slingshot allows
# level: perf
# runs: ranks
# timeout_seconds: 900
# needs: {gpus: 1, nodes: 2, tasks: 2, network: cxi}
# thresholds:
#   all_reduce_128MiB:
#     unit: GB/s
#     minimum: 80.75
#     reference: 85
#     architecture: gfx90a
#     source: >-
#       lumi-reframe-tests, checks/microbenchmarks/gpu/rccl_test.py: busbw of half numbers on 2
#       nodes (16 GCDs), -5 %
#   all_reduce_512MiB:
#     unit: GB/s
#     reference: 105
#     architecture: gfx90a
#     source: >-
#       lumi-reframe-tests, checks/apps/deeplearning/deepspeed_comm.py: 840 Gbit/s on 2 nodes, by
#       DeepSpeed's benchmark
# hint: >-
#   look at pytorch/network: without the plugin RCCL goes through sockets; start 8 ranks a node,
#   each with the interface next to its GPU
# ///

import _collectives
import _gpu as gpu

NAMES = {"all_reduce_128MiB": 128 * gpu.MIB, "all_reduce_512MiB": 512 * gpu.MIB}


def of_pairs(ranks, firsts):
    """Measure between two nodes each, all pairs at once; ``firsts`` are their first nodes."""
    pairs = [ranks.on_nodes[n] + ranks.on_nodes[n + 1] for n in firsts]
    teams = [_collectives.Team(ranks, pair) for pair in pairs]
    return _collectives.bandwidths(_collectives.own(teams))


ranks = gpu.Ranks()
# The references are of two nodes, so pairs of nodes are judged; the slowest counts. A node that is
# left over is measured after the others, with the one before it.
turns = [range(0, ranks.nodes - 1, 2), *([[ranks.nodes - 2]] if ranks.nodes % 2 else [])]
series = _collectives.slowest([of_pairs(ranks, firsts) for firsts in turns])
everybody = _collectives.Team(ranks, range(ranks.size))
title = f"pairs of nodes: {sum(map(len, ranks.on_nodes[:2]))} ranks, half precision"
pictures = [_collectives.picture(title, series, *NAMES)]
if ranks.nodes > 2:
    title = f"all {ranks.nodes} nodes: {ranks.size} ranks, half precision"
    pictures.append(_collectives.picture(title, _collectives.bandwidths(everybody)))
ranks.note("bandwidth", pictures)
_collectives.judge(ranks, series, NAMES)
ranks.conclude([])
