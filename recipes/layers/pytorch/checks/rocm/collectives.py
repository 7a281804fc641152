# /// check
# summary: >-
#   all_reduce, all_gather, reduce_scatter and all_to_all of PyTorch give the right numbers, within
#   a node and over all nodes
# level: full
# runs: ranks
# timeout_seconds: 300
# needs: {gpus: 1, tasks: 2}
# hint: >-
#   look at pytorch/network and rccl-tests/all_reduce_perf: they separate library and network
# ///

import _collectives
import _gpu as gpu

SIZES = (2048, gpu.MIB)
"""Numbers for each rank of a team: what goes in one packet, and what does not."""
LIMIT = 64 * gpu.MIB
"""Numbers of a message of many ranks."""


def problems(team):
    """Yield what is wrong with the collectives of a team."""
    for dtype in _collectives.EXACT:
        for collective in _collectives.COLLECTIVES:
            for size in SIZES:
                each = max(SIZES[0], min(size, LIMIT // team.size))
                wrong = team.wrong(collective, each * team.size, dtype)
                if wrong:
                    yield wrong


ranks = gpu.Ranks()
found = []
for members in ranks.on_nodes:
    node = _collectives.Team(ranks, members)
    if node.index >= 0 and node.size > 1:
        found += problems(node)
# One rank alone meets nobody, and still goes through the library.
if ranks.nodes > 1 or ranks.size == 1:
    found += problems(_collectives.Team(ranks, range(ranks.size)))
ranks.note("groups", {"nodes": ranks.nodes, "ranks": ranks.size})
ranks.conclude(found[:8])
