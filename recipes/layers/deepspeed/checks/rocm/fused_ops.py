# /// check
# summary: >-
#   DeepSpeed's Adam and Lion, its quantizer and its random-LTD give what PyTorch gives, where they
#   are compiled in; other ops that are compiled in are named
# level: full
# timeout_seconds: 300
# needs: {gpus: 1}
# hint: >-
#   rebuild the layer deepspeed, which has it compiled for waves of 64 threads
# ///

# DeepSpeed asks rocminfo how many threads a wave has, and takes 32 where that fails, as it does
# without a GPU (op_builder/builder.py, get_rocm_wavefront_size); MI250X has 64. The ops that count
# on it are the quantizer and random-LTD: their sums and their sorting go wrong then.

import contextlib
import sys

import torch
from lumi_inside.checking import failed, note, parameters, shared, skipped

# DeepSpeed talks on stdout while it is imported.
with contextlib.redirect_stdout(sys.stderr):
    from deepspeed.ops import op_builder
    from deepspeed.ops.adam import DeepSpeedCPUAdam, FusedAdam
    from deepspeed.ops.lion import DeepSpeedCPULion, FusedLion

gpu = shared("pytorch/rocm/_gpu.py")
STEPS = 10
HOW = {"lr": 1e-2, "betas": (0.9, 0.99), "weight_decay": 0.1}
ALLOWED = 1e-5
"""In fp32; the order of a few products differs."""
SHAPES = ((1023, 33), (4096,), (7,))


def stepped(make, on):
    """Return parameters after some steps of an optimizer; the gradients are the same always."""
    torch.manual_seed(11)
    given = [torch.nn.Parameter(torch.randn(shape).to(on)) for shape in SHAPES]
    optimizer = make(given)
    for _ in range(STEPS):
        for each in given:
            each.grad = torch.randn(each.shape).to(on)
        optimizer.step()
    return given


class Lion(torch.optim.Optimizer):
    """Lion as it is published (arXiv 2302.06675, algorithm 2)."""

    def __init__(self, given):
        super().__init__(given, HOW)

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            one, two = group["betas"]
            for each in group["params"]:
                kept = self.state[each].setdefault("kept", torch.zeros_like(each))
                sign = torch.sign(one * kept + (1 - one) * each.grad)
                each.mul_(1 - group["lr"] * group["weight_decay"]).sub_(group["lr"] * sign)
                kept.mul_(two).add_((1 - two) * each.grad)


def compared(make, plain, on):
    """Return how far an optimizer is from the one that it stands for, in words; "" if it is not."""
    pairs = zip(stepped(make, on), stepped(plain, on), strict=True)
    apart = max(gpu.apart(*pair) for pair in pairs)
    return f"after {STEPS} steps it is {apart:.1e} apart from PyTorch" if apart > ALLOWED else ""


def fused_adam(on):
    """Compare with AdamW of PyTorch."""
    return compared(lambda given: FusedAdam(given, **HOW), _adamw, on)


def cpu_adam(_):
    """Compare with AdamW of PyTorch, on the CPU."""
    return compared(lambda given: DeepSpeedCPUAdam(given, **HOW), _adamw, torch.device("cpu"))


def _adamw(given):
    return torch.optim.AdamW(given, **HOW)


def fused_lion(on):
    """Compare with Lion as it is published."""
    return compared(lambda given: FusedLion(given, **HOW), Lion, on)


def cpu_lion(_):
    """Compare with Lion as it is published, on the CPU."""
    return compared(lambda given: DeepSpeedCPULion(given, **HOW), Lion, torch.device("cpu"))


def quantizer(on):
    """Round fp16 numbers to 8 bits, and compare with the numbers themselves."""
    module = op_builder.QuantizerBuilder().load()
    torch.manual_seed(12)
    groups = 64
    numbers = torch.randn(groups, 2048).half().to(on)
    kept, scales = module.quantize(numbers, groups, 8, module.Symmetric)
    came = module.dequantize(kept, scales, groups, 8, module.Symmetric)
    # A step is the 128th part of each group's largest number, of which 8 bits hold at most 127
    # (csrc/includes/quantization_utils.h). Half a step may be lost, and what fp16 rounds.
    step = numbers.float().abs().amax(1, keepdim=True) / 128
    wanted = torch.minimum(numbers.float(), 127 * step)
    bad = (came.float() - wanted).abs() > 0.51 * step + wanted.abs() * 2**-10
    count = int(bad.sum())
    return f"{count} of {bad.numel()} numbers do not come back from 8 bits" if count else ""


def random_ltd(on):
    """Sort tokens that were chosen, as random layer-wise token dropping does."""
    module = op_builder.RandomLTDBuilder().load()
    torch.manual_seed(13)
    for length, chosen in ((2048, 1024), (1024, 64)):
        tokens = torch.stack([torch.randperm(length)[:chosen] for _ in range(8)])
        tokens = tokens.reshape(2, 4, chosen).to(on, torch.int32)
        wanted = tokens.sort(-1).values
        if not torch.equal(module.token_sort_(tokens.clone(), length), wanted):
            return f"{chosen} of {length} tokens are not sorted rightly"
    return ""


OPS = {
    "DS_BUILD_FUSED_ADAM": fused_adam,
    "DS_BUILD_CPU_ADAM": cpu_adam,
    "DS_BUILD_FUSED_LION": fused_lion,
    "DS_BUILD_CPU_LION": cpu_lion,
    "DS_BUILD_QUANTIZER": quantizer,
    "DS_BUILD_RANDOM_LTD": random_ltd,
}

on = gpu.device()
flags = parameters("deepspeed").items()
compiled = [name for name, yes in flags if name.startswith("DS_BUILD_") and yes]
others = [name for name in compiled if name not in OPS]
note("not compared", others)
if len(others) == len(compiled):
    skipped(f"it compares none of the ops that are compiled in: {', '.join(others) or 'no op'}")
found = {name: OPS[name](on) for name in compiled if name in OPS}
note("ops", {name: text or "as PyTorch" for name, text in found.items()})
problems = [f"{name.removeprefix('DS_BUILD_')}: {text}" for name, text in found.items() if text]
if problems:
    failed(*problems)
