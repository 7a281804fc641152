"""Stand in for FlashAttention if there is no GPU: PyTorch's attention in fp32, rounded.

FAULT names what is wrong with it: ``backward`` (of heads of 64), ``kernel`` (none for heads of
256), ``causal`` (what is to come is seen, by heads of 32 in fp16).
"""

import os

import torch
from torch.nn.functional import scaled_dot_product_attention

FAULT = os.environ.get("FAULT", "")


class _Wrong(torch.autograd.Function):
    @staticmethod
    def forward(_, tensor):
        return tensor.clone()

    @staticmethod
    def backward(_, gradient):
        return gradient * 0.9


def flash_attn_func(query, key, value, causal=False):
    size = query.shape[-1]
    if "kernel" in FAULT and size == 256:
        raise RuntimeError("HIP error: no kernel image is available for execution on the device")
    if "backward" in FAULT and size == 64:
        key = _Wrong.apply(key)
    tensors = [each.float().transpose(1, 2) for each in (query, key, value)]
    if "causal" in FAULT and size == 32 and query.dtype == torch.float16:
        causal = False
    seen = scaled_dot_product_attention(*tensors, is_causal=causal)
    return seen.transpose(1, 2).to(query.dtype)
