"""A stack of blocks like Llama's, and the number of operations of its step."""

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention, silu


class Block(nn.Module):
    """A norm, attention, a norm, a gated pair of products; the residuals around them."""

    def __init__(self, width, inner, heads):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.RMSNorm(width) for _ in range(2))
        self.taken = nn.Linear(width, 3 * width, bias=False)
        self.given = nn.Linear(width, width, bias=False)
        self.gate, self.up = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, rows):
        batch, length, width = rows.shape
        parts = self.taken(self.norms[0](rows)).view(batch, length, 3, self.heads, -1)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        seen = scaled_dot_product_attention(query, key, value, is_causal=True)
        rows = rows + self.given(seen.transpose(1, 2).reshape(batch, length, width))
        normed = self.norms[1](rows)
        return rows + self.down(silu(self.gate(normed)) * self.up(normed))


class Stack:
    """A stack of blocks in bf16 with its rows; on a GPU of Llama-2-7B's width."""

    def __init__(self, on):
        small = on.type != "cuda"
        self.width, self.inner, self.heads = (256, 688, 4) if small else (4096, 11008, 32)
        self.length, self.layers = (128, 2) if small else (4096, 4)
        torch.manual_seed(8)
        kind = {"device": on, "dtype": torch.bfloat16}
        blocks = [Block(self.width, self.inner, self.heads).to(**kind) for _ in range(self.layers)]
        self.model = nn.Sequential(*blocks)
        self.rows = torch.randn(1, self.length, self.width, **kind)

    def step(self):
        """Go forward and backward once."""
        self.model.zero_grad(set_to_none=True)
        self.model(self.rows).float().pow(2).mean().backward()

    def operations(self):
        """Return the floating-point operations of a step: forward once, backward twice as many.

        Of attention all places are counted, as Megatron-LM does, though half of them are masked.
        """
        weights = 4 * self.width**2 + 3 * self.width * self.inner
        attention = 2 * self.length * self.width
        return 3 * 2 * self.length * self.layers * (weights + attention)
