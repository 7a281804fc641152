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
several = [members for members in ranks.on_nodes if len(members) > 1]
if not several:
    skipped("there is one rank on each node")
team = _collectives.own([_collectives.Team(ranks, members) for members in several])
series = _collectives.bandwidths(team)
title = f"within a node: {team.size} ranks, half precision"
ranks.note("bandwidth", _collectives.picture(title, series, "all_reduce_128MiB"))
_collectives.judge(ranks, series, {"all_reduce_128MiB": 128 * gpu.MIB})
ranks.conclude([])
