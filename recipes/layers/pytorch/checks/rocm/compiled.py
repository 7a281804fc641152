# /// check
# summary: torch.compile compiles for this GPU, and gives what PyTorch gives without it
# level: full
# timeout_seconds: 300
# needs: {gpus: 1}
# hint: >-
#   rebuild the layer pytorch, for its Triton; unset TORCH_COMPILE_DISABLE and
#   TORCHDYNAMO_DISABLE
# ///

import _gpu as gpu
import torch
from lumi_inside.checking import failed
from torch import nn

ALLOWED = 1e-4
"""In fp32 on both sides; the order of sums differs."""


class Small(nn.Module):
    """Operations that compilers fuse: products, a norm, a softmax, pointwise functions."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(64, 256), nn.Linear(256, 64)
        self.norm = nn.LayerNorm(64)

    def forward(self, rows):
        mixed = torch.softmax(rows @ rows.transpose(-1, -2) / 8, -1) @ rows
        return (
            self.norm(rows + self.down(nn.functional.gelu(self.up(mixed)))).tanh().cumsum(-1).mean()
        )


def results(run, model, rows):
    """Return the loss and the gradients."""
    model.zero_grad()
    loss = run(rows)
    loss.backward()
    return [loss.detach(), *(each.grad.clone() for each in model.parameters())]


on = gpu.device()
torch.manual_seed(3)
model = Small().to(on)
rows = torch.randn(8, 32, 64, device=on)
wanted = results(model, model, rows)
torch._dynamo.utils.counters.clear()
found = results(torch.compile(model, fullgraph=True), model, rows)
graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
apart = max(gpu.apart(one, other) for one, other in zip(found, wanted, strict=True))
print(f"{graphs} graph compiled, {apart:.1e} apart")
if not graphs:
    failed("torch.compile compiled nothing: a variable such as TORCHDYNAMO_DISABLE forbids it")
if apart > ALLOWED:
    failed(f"compiled, the model's loss and gradients are {apart:.1e} apart from PyTorch's own")
