# /// check
# summary: >-
#   FlashAttention is correct forward and backward, for the head sizes of its kernels, in fp16 and
#   bf16, causal or not
# level: full
# timeout_seconds: 600
# needs: {gpus: 1, architecture: gfx90a}
# hint: >-
#   rebuild the layer flash-attention for gfx90a; with 'no kernel image' take the other
#   --profile (ROCm/flash-attention issue 120)
# ///

# Backward kernels built for gfx90a with ROCm 6.3.1 held code of another GPU for some sizes:
# ROCm/flash-attention issue 120. Judged as by flash-attention's own tests/test_flash_attn.py: it is
# allowed twice the distance from fp32 that PyTorch's own attention in the same type has.

import itertools

import torch
from flash_attn import flash_attn_func
from lumi_inside.checking import failed, note, parameters, shared

gpu = shared("pytorch/rocm/_gpu.py")
SIZES = (32, 64, 96, 128, 256)
LEAST = {torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
"""The distance allowed if PyTorch's own attention is exact by chance."""
ROWS, HEADS, LENGTHS = 2, 4, {"cuda": 257, "cpu": 65}
NAMES = ("result", "gradient of q", "gradient of k", "gradient of v")


def sizes():
    """Return the sizes of heads that there are kernels for: each serves smaller heads as well.

    Triton's are compiled at run time, for all sizes.
    """
    given = parameters("flash-attention")
    if given["provider"] != "ck":
        return list(SIZES)
    largest = max(map(int, given["OPT_DIM"].split(",")))
    return [size for size in SIZES if size <= largest]


def plain(query, key, value, *, causal):
    """Return attention as it is defined, with the numbers it is given."""
    query, key, value = (each.transpose(1, 2) for each in (query, key, value))
    scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
    if causal:
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(hidden, float("-inf"))
    return (scores.softmax(-1) @ value).transpose(1, 2)


def results(attention, given, weights, *, causal):
    """Return the result and the gradients of an attention."""
    inputs = [each.detach().clone().requires_grad_() for each in given]
    result = attention(*inputs, causal=causal)
    (result.float() * weights).sum().backward()
    return [result, *(each.grad for each in inputs)]


def wrong(size, dtype, on, *, causal):
    """Yield what is wrong with one kind of attention."""
    name = f"heads of {size}, {str(dtype)[6:]}{', causal' if causal else ''}"
    torch.manual_seed(size)
    shape = (ROWS, LENGTHS[on.type], HEADS, size)
    given = [torch.randn(shape, device=on).to(dtype) for _ in range(3)]
    weights = torch.randn(shape, device=on)
    wanted = results(plain, [each.float() for each in given], weights, causal=causal)
    usual = results(plain, given, weights, causal=causal)
    try:
        found = results(flash_attn_func, given, weights, causal=causal)
        gpu.wait(on)
    except RuntimeError as error:
        yield f"{name}: {str(error).strip().splitlines()[0]}"
        return
    for what, one, other, right in zip(NAMES, found, usual, wanted, strict=True):
        apart, allowed = gpu.apart(one, right), max(2 * gpu.apart(other, right), LEAST[dtype])
        if apart > allowed:
            yield f"{name}: the {what} is {apart:.1e} apart from fp32, and {allowed:.1e} is allowed"


on = gpu.device()
heads = sizes()
kinds = list(itertools.product(heads, LEAST, (False, True)))
problems = [text for size, dtype, causal in kinds for text in wrong(size, dtype, on, causal=causal)]
without = [size for size in SIZES if size not in heads]
note("attention", {"kinds": len(kinds), "heads": heads, "without_kernels": without})
if problems:
    failed(*problems[:12])
