# /// check
# summary: Horovod adds and averages over all ranks through RCCL, with what every rank hands in
# level: full
# runs: ranks
# timeout_seconds: 300
# needs: {gpus: 1, tasks: 2, mpi: true}
# thresholds:
#   of_torch:
#     unit: of PyTorch's
#     reference: 1
#     architecture: gfx90a
#     source: both go through the same RCCL; no figure is public
# hint: >-
#   rebuild the layer horovod, after pytorch and mpich; start it by srun --mpi=pmi2 or mpiexec
# ///

import horovod.torch as hvd
import torch
import torch.distributed as dist
from lumi_inside.checking import measured, shared

gpu = shared("pytorch/rocm/_gpu.py")
EXACT = {torch.float32: 1 << 24, torch.float16: 1 << 11, torch.float64: 1 << 53}
"""The kinds of numbers, and up to which whole ones are what they are."""
MOST = 4
"""The largest number that a rank hands in."""
LARGE = {"cuda": 64 * gpu.MIB, "cpu": gpu.MIB}
"""Numbers of the message that speed is measured with: 128 MiB in half precision on a GPU."""


def given(places, rank):
    """Return the numbers that a rank hands in at some places: whole, from 0 to MOST."""
    return (places + 3 * rank) % (MOST + 1)


def wrong(ranks):
    """Yield what is wrong with the numbers that Horovod gives."""
    places = torch.arange(10_000, device=ranks.device)
    total = sum(given(places, rank) for rank in range(ranks.size)).double()
    for dtype, exact in EXACT.items():
        number = given(places, ranks.rank).to(dtype)
        # Sums of many ranks are rounded; how often depends on the order of additions.
        allowed = 2**-9 if ranks.size * MOST <= exact else 0.05
        for name, how, wanted in (
            ("sum", hvd.Sum, total),
            ("average", hvd.Average, total / ranks.size),
        ):
            found = hvd.allreduce(number, op=how, name=f"{name} {dtype}")
            if gpu.apart(found, wanted) > allowed:
                yield (
                    f"the {name} of {str(dtype)[6:]} over {ranks.size} ranks begins with "
                    f"{found[:3].tolist()} in the place of {wanted[:3].tolist()}"
                )


hvd.init()
ranks = gpu.Ranks()
problems = []
if (hvd.rank(), hvd.size()) != (ranks.rank, ranks.size):
    problems.append(
        f"Horovod is rank {hvd.rank()} of {hvd.size()}, and the launcher says {ranks.rank} of "
        f"{ranks.size}: MPI did not find the other ranks"
    )
if ranks.device.type == "cuda" and not hvd.nccl_built():
    problems.append("Horovod is built without RCCL: it moves gradients over MPI")
# Without each other they would wait for ever below.
if ranks.gathered(len(problems), any):
    hvd.shutdown()
    ranks.conclude(problems)
problems += wrong(ranks)
message = torch.zeros(LARGE[ranks.device.type], dtype=torch.float16, device=ranks.device)
ranks.meet()
own = gpu.seconds(lambda: hvd.allreduce_(message, name="speed"), ranks.device, rounds=10, warm=2)
ranks.meet()
torchs = gpu.seconds(lambda: dist.all_reduce(message), ranks.device, rounds=10, warm=2)
if ranks.rank == 0:
    measured("of_torch", torchs / own)
factor = 2 * (ranks.size - 1) / ranks.size * message.nbytes / 1e9
ranks.note("GB/s", {"Horovod": round(factor / own, 3), "PyTorch": round(factor / torchs, 3)})
hvd.shutdown()
ranks.conclude(problems)
