# /// check
# summary: >-
#   a step of QLoRA on weights of 4 bits gives the gradients that PyTorch gives for the same weights
# level: full
# timeout_seconds: 180
# hint: rebuild the layer bitsandbytes; unset BNB_ROCM_VERSION
# ///

import bitsandbytes
import torch
from lumi_inside.checking import failed, note
from torch import nn

WIDTH, RANK, ROWS = 256, 8, 32
WIDEST = 0.16
"""Half of the widest step between two of NF4's numbers, which go from -1 to 1, and some room."""
ALLOWED = 1e-3
"""In fp32; the order of sums differs."""

on = torch.device("cuda" if torch.cuda.is_available() else "cpu")
name = torch.cuda.get_device_name() if on.type == "cuda" else "the CPU"
note("ran_on", name)
torch.manual_seed(31)
weight = torch.randn(WIDTH, WIDTH)
frozen = bitsandbytes.nn.Linear4bit(
    WIDTH, WIDTH, bias=False, compute_dtype=torch.float32, quant_type="nf4"
)
frozen.weight = bitsandbytes.nn.Params4bit(weight.clone(), requires_grad=False, quant_type="nf4")
frozen = frozen.to(on)
state = frozen.weight.quant_state
came = bitsandbytes.functional.dequantize_4bit(frozen.weight.data, state).float()
blocks = weight.reshape(-1, state.blocksize)
apart = (came.cpu().reshape(blocks.shape) - blocks).abs() / blocks.abs().amax(1, keepdim=True)
print(f"{name}: weights are at most {apart.max():.3f} of their block's largest apart")
if not apart.max() <= WIDEST:
    failed(f"weights of 4 bits are {apart.max():.2g} of their block's largest number apart")

rows, wanted = (torch.randn(ROWS, WIDTH, device=on) for _ in range(2))
first = torch.randn(RANK, WIDTH, device=on) / WIDTH


def gradients(product):
    """Return the loss of a step, and the gradients of the two small matrices and of the rows."""
    down, up = (nn.Parameter(each.clone()) for each in (first, first.T))
    given = rows.clone().requires_grad_()
    loss = (product(given) + given @ down.T @ up.T - wanted).pow(2).mean()
    loss.backward()
    return [loss.detach(), down.grad, up.grad, given.grad]


pairs = zip(gradients(frozen), gradients(lambda given: given @ came.T), strict=True)
far = max(((one - other).abs().max() / other.abs().max()).item() for one, other in pairs)
note("apart", far)
if not far <= ALLOWED:
    failed(f"a step of QLoRA is {far:.2g} apart from PyTorch's with the same weights")
