# /// check
# summary: the memory of every GPU of the node keeps what is written to it
# level: full
# runs: node
# timeout_seconds: 300
# needs: {gpus: 1}
# thresholds:
#   copy:
#     unit: GB/s
#     reference: 1600
#     architecture: gfx90a
#     source: >-
#       AMD Instinct MI250X data sheet: 3.2 TB/s for two GCDs; a peak, never reached
# hint: >-
#   end other programs on the GPU that is named; if there are none, take it out of the job (srun
#   --exclude)
# ///

# Bytes that are read and bytes that are written count, as in the data sheet's figure.

import _gpu as gpu
import torch
from lumi_inside.checking import failed, measured, note

PART = 0.8
"""Of the memory that is free: PyTorch and the driver need some for their work."""
PIECE, ON_CPU = 256 * gpu.MIB, 16 * gpu.MIB
"""Bytes that are written and compared at a time, and how many there are of them on the CPU."""


def room(on):
    """Return how many bytes of a device to fill."""
    return int(PART * torch.cuda.mem_get_info(on)[0]) if on.type == "cuda" else 4 * ON_CPU


def wrong(on):
    """Fill most of a device's memory with numbers; yield the pieces that have changed then."""
    size = PIECE if on.type == "cuda" else ON_CPU
    numbers = torch.arange(size // 8, dtype=torch.int64, device=on)
    # A comparison needs two more.
    pieces = [numbers + number for number in range(room(on) // size - 3)]
    gpu.wait(on)
    print(f"{on}: {len(pieces)} pieces of {size >> 20} MiB are written", flush=True)
    for number, piece in enumerate(pieces):
        bad = int((piece - number != numbers).sum())
        if bad:
            yield f"{on}: {bad} of {len(piece)} numbers of piece {number} have changed"


def speed(on):
    """Return how fast a device copies within its memory, in GB/s."""
    size = PIECE if on.type == "cuda" else ON_CPU
    one, other = (torch.zeros(size // 8, dtype=torch.int64, device=on) for _ in range(2))
    return 2 * size / gpu.seconds(lambda: other.copy_(one), on, rounds=50, warm=5) / 1e9


devices = gpu.devices()
note("GiB filled", {str(on): round(room(on) / 2**30, 1) for on in devices})
problems = [text for on in devices for text in wrong(on)]
if devices[0].type == "cuda":
    torch.cuda.empty_cache()
measured("copy", min(speed(on) for on in devices))
if problems:
    failed(*problems[:8])
