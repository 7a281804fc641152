# /// check
# proves: collectives of PyTorch are as fast between the GPUs of a node as its links allow
# level: perf
# runs: ranks
# seconds: 600
# needs: {gpus: 2, tasks: 2}
# thresholds:
#   all_reduce_128MiB:
#     unit: GB/s
#     floor: 118.75
#     reference: 125
#     of: gfx90a
#     source: >-
#       lumi-reframe-tests, checks/ai-guide/check_ddp_visualtransformer.py: busbw of half numbers on
#       8 GCDs, -5 %
# mend: >-
#   look at the links (rocm-smi --showtopo) and unset NCCL_P2P_DISABLE; each rank needs all GPUs of
#   the node in its cgroup
# ///

import _collectives
import _gpu as gpu
from lumi_inside.checking import measured, skipped

ALL = 8
"""GCDs of a LUMI-G node: fewer have fewer links between them, of which there is no reference."""

ranks = gpu.Ranks()
if ranks.local_size == 1:
    skipped("there is one rank on each node")
teams = [
    _collectives.Team(ranks, range(first, first + ranks.local_size))
    for first in range(0, ranks.size, ranks.local_size)
]
own = teams[ranks.node]
rows, found = _collectives.bandwidths(own, "node")
ranks.tell("bandwidth", rows)
if ranks.rank == 0:
    if own.size == ALL:
        measured("all_reduce_128MiB", found)
    else:
        print(
            f"all_reduce of 128 MiB: {found:.4g} GB/s over {own.size} GPUs, not judged: not {ALL}"
        )
ranks.conclude([])
