# /// check
# summary: >-
#   PyTorch itself reaches other nodes through RCCL's plugin and the provider cxi, not through
#   sockets
# level: full
# runs: ranks
# timeout_seconds: 240
# needs: {gpus: 1, nodes: 2, tasks: 2, network: cxi}
# hint: >-
#   look at rccl-plugin/interface; set nothing of NCCL_NET, NCCL_NET_PLUGIN and NCCL_NET_GDR_LEVEL
#   yourself; bind no host's libfabric
# ///

import _gpu as gpu
import _rccl
import torch
import torch.distributed as dist
from lumi_inside.checking import memory_map

log = _rccl.logged()
ranks = gpu.Ranks()
dist.all_reduce(torch.ones(1 << 20, device=ranks.device))
gpu.wait(ranks.device)
seen, said = memory_map(), _rccl.said(log)
ranks.note("plugin", _rccl.mapped(seen)[1])
problems = [
    *_rccl.wrong_plugin(seen),
    *_rccl.wrong_network(said),
    *_rccl.wrong_connections(said),
]
if problems:
    print("\n".join(said.splitlines()[-40:]))
ranks.conclude(problems)
