# /// check
# summary: >-
#   products of matrices keep the smallest fp16 and bf16 numbers (denormals) where PyTorch promises
#   it
# level: full
# needs: {gpus: 1}
# hint: >-
#   train in bf16, or with the other ROCm of the recipe's profiles; unset
#   ROCBLAS_INTERNAL_FP16_ALT_IMPL
# ///

# The instructions of MI200 GPUs for products of fp16 and bf16 flush denormals to zero. PyTorch has
# rocBLAS take another way for fp16 in backward passes, where gradients are small; a variable asks
# for it in forward passes too, or never. Of bf16, with a range as wide as fp32's, nothing is
# promised (PyTorch, docs/source/notes/numerical_accuracy.rst). Other GPUs keep denormals.
# With ROCm 6.4 the other way was reported to have no effect (LUMI, User-Coffee-Breaks/20260326,
# question 23; olcf-user-docs issue 478): then this check fails.

import os

import _gpu as gpu
import torch
from lumi_inside.checking import failed, note

VARIABLE = "ROCBLAS_INTERNAL_FP16_ALT_IMPL"
SMALLEST = {"fp16": (torch.float16, 2.0**-24, 1023), "bf16": (torch.bfloat16, 2.0**-133, 127)}
"""The type, its smallest number above 0, and how many of these its largest denormal is."""
ALLOWED = 2**-7
"""The other way rounds fp16 to bf16, whose fraction has 8 bits."""
SIDE = 128


def promised(kind, on, *, backward):
    """Return whether products of this kind of number are to keep denormals."""
    if on.type != "cuda":
        return kind == "fp16"
    if not torch.cuda.get_device_properties(on).gcnArchName.startswith("gfx90a"):
        return True
    asked = os.environ.get(VARIABLE, "")
    return kind == "fp16" and (backward if not asked else asked != "0")


def kept(kind, on):
    """Return how far products of denormals with one are from these, forward and backward."""
    dtype, step, most = SMALLEST[kind]
    torch.manual_seed(2)
    numbers = torch.randint(1, most + 1, (SIDE, SIDE)).double() * step
    one = torch.eye(SIDE, dtype=dtype, device=on).requires_grad_()
    weight = torch.eye(SIDE, dtype=dtype, device=on).requires_grad_()
    forward = gpu.apart(torch.matmul(numbers.to(dtype).to(on), weight), numbers)
    torch.matmul(one, weight).backward(numbers.to(dtype).to(on))
    # Both gradients are the numbers themselves: with the unit matrix as the other factor.
    backward = max(gpu.apart(each.grad, numbers) for each in (one, weight))
    return {"forward": forward, "backward": backward}


def judged(on):
    """Yield what is wrong; report all that was seen."""
    seen = {}
    for kind in SMALLEST:
        for way, apart in kept(kind, on).items():
            bound = promised(kind, on, backward=way == "backward")
            holds = apart <= ALLOWED
            seen[f"{kind} {way}"] = "kept" if holds else "flushed to zero or changed"
            print(f"{kind} {way}: {seen[f'{kind} {way}']}, {'' if bound else 'not '}promised")
            if bound and not holds:
                yield f"{kind} products in {way} passes lose denormals: {apart:.1e} of the largest"
    note("denormals", seen)


problems = list(judged(gpu.device()))
if problems:
    failed(*problems)
