# /// check
# summary: collectives of PyTorch are as fast between the GPUs of a node as its links allow
# level: perf
# runs: ranks
# timeout_seconds: 600
# needs: {gpus: 2, tasks: 2}
# thresholds:
#   all_reduce_128MiB:
#     unit: GB/s
#     minimum: 118.75
#     reference: 125
#     architecture: gfx90a
#     source: >-
#       lumi-reframe-tests, checks/ai-guide/check_ddp_visualtransformer.py: busbw of half numbers on
#       8 GCDs, -5 %
# hint: >-
#   look at the links (rocm-smi --showtopo) and unset NCCL_P2P_DISABLE; each rank needs all GPUs of
#   the node in its cgroup
# ///

import _collectives
import _gpu as gpu
from lumi_inside.checking import skipped

ranks = gpu.Ranks()
if ranks.local_size == 1:
    skipped("there is one rank on each node")
teams = [
    _collectives.Team(ranks, range(first, first + ranks.local_size))
    for first in range(0, ranks.size, ranks.local_size)
]
series = _collectives.bandwidths(teams[ranks.node])
title = f"within a node: {ranks.local_size} ranks, half precision"
ranks.note("bandwidth", _collectives.picture(title, series, "all_reduce_128MiB"))
_collectives.judge(ranks, series, {"all_reduce_128MiB": 128 * gpu.MIB})
ranks.conclude([])
