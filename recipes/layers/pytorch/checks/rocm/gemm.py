# /// check
# summary: matrix products in fp32, bf16 and fp16 are correct on every GPU of the node
# level: full
# runs: node
# timeout_seconds: 300
# needs: {gpus: 1}
# thresholds:
#   fp32:
#     unit: TFLOP/s
#     reference: 47.85
#     architecture: gfx90a
#     source: >-
#       AMD Instinct MI250X data sheet: 95.7 TFLOP/s FP32 matrix for two GCDs; a peak, never reached
#   bf16:
#     unit: TFLOP/s
#     reference: 191.5
#     architecture: gfx90a
#     source: >-
#       AMD Instinct MI250X data sheet: 383 TFLOP/s BF16 for two GCDs; a peak, never reached
#   fp16:
#     unit: TFLOP/s
#     reference: 191.5
#     architecture: gfx90a
#     source: >-
#       AMD Instinct MI250X data sheet: 383 TFLOP/s FP16 for two GCDs; a peak, never reached
# hint: >-
#   take the GPU that is named out of the job (srun --exclude); on all of them: build the layers
#   rocm and pytorch again
# ///

import _gpu as gpu
import torch
from lumi_inside.checking import failed, measured

# How far a product may be from that in float64 of the same (rounded) factors, as a part of its
# largest number: sums are in fp32, and the result is rounded once.
KINDS = {
    "fp32": (torch.float32, 1e-5),
    "bf16": (torch.bfloat16, 2**-7),
    "fp16": (torch.float16, 2**-8),
}
SHAPES = ((512, 512, 512), (1000, 777, 333), (64, 4096, 128))
LARGE, SMALL = 8192, 512
"""Side of the matrices that speed is measured with, on a GPU and on the CPU."""


def wrong(kind, on):
    """Return what is wrong with products of one kind of number on a device."""
    dtype, allowed = KINDS[kind]
    torch.manual_seed(1)
    for rows, inner, columns in SHAPES:
        one = torch.randn(rows, inner, dtype=torch.float64).to(dtype)
        other = torch.randn(inner, columns, dtype=torch.float64).to(dtype)
        wanted = one.double() @ other.double()
        apart = gpu.apart(torch.matmul(one.to(on), other.to(on)), wanted)
        print(f"{on} {kind} {rows}x{inner}x{columns}: {apart:.1e} apart from float64")
        if apart > allowed:
            yield (
                f"{on}: a product in {kind} ({rows}x{inner}x{columns}) is {apart:.1e} apart from "
                f"that in float64, and {allowed:.1e} is allowed"
            )


def speed(kind, on):
    """Return how fast products of one kind of number are, in TFLOP/s."""
    side = LARGE if on.type == "cuda" else SMALL
    one = torch.randn(side, side, device=on).to(KINDS[kind][0])
    taken = gpu.seconds(lambda: torch.matmul(one, one), on, rounds=10, warm=3)
    return 2 * side**3 / taken / 1e12


devices = gpu.devices()
problems = [text for on in devices for kind in KINDS for text in wrong(kind, on)]
for each in KINDS:
    measured(each, min(speed(each, on) for on in devices))
if problems:
    failed(*problems)
