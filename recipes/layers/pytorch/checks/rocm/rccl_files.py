# /// check
# summary: >-
#   the process that trains has mapped one RCCL, the image's, and that RCCL connects its rings and
#   trees
# level: full
# runs: ranks
# timeout_seconds: 180
# needs: {gpus: 1, tasks: 2}
# hint: >-
#   unset LD_PRELOAD and LD_LIBRARY_PATH outside the image; rebuild the layer pytorch: it puts
#   the image's RCCL in the place of the wheel's
# ///

import _gpu as gpu
import _rccl
import torch
import torch.distributed as dist
from lumi_inside.checking import memory_map

log = _rccl.logged()
ranks = gpu.Ranks()
dist.all_reduce(torch.ones(1024, device=ranks.device))
gpu.wait(ranks.device)
seen = memory_map()
ranks.note("RCCL", _rccl.mapped(seen)[0])
said = _rccl.said(log)
problems = [*_rccl.wrong_files(seen), *_rccl.wrong_connections(said)]
if problems:
    print("\n".join(said.splitlines()[-40:]))
ranks.conclude(problems)
