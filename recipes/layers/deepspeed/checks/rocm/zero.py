# /// check
# summary: DeepSpeed's ZeRO 0 to 3 train to the parameters that PyTorch alone trains to
# level: full
# runs: ranks
# timeout_seconds: 600
# needs: {gpus: 1, tasks: 2}
# hint: check deepspeed/fused_ops and pytorch/collectives, which ZeRO is made of
# ///

import contextlib
import logging
import sys

import torch
from lumi_inside.checking import shared
from torch import nn

with contextlib.redirect_stdout(sys.stderr):
    import deepspeed

gpu = shared("pytorch/rocm/_gpu.py")
STEPS, ROWS, WIDTH = 5, 8, 64
# The epsilon keeps gradients that are nearly zero from steps of full length with either sign.
HOW = {"lr": 1e-2, "betas": (0.9, 0.99), "eps": 1e-3, "weight_decay": 0.1}
ALLOWED = 1e-4


def made(on):
    """Return a model that is the same everywhere."""
    torch.manual_seed(21)
    return nn.Sequential(nn.Linear(WIDTH, 257), nn.GELU(), nn.Linear(257, WIDTH)).to(on)


def plain(on, rows):
    """Return the parameters that PyTorch trains to, with the rows of all ranks."""
    model = made(on)
    optimizer = torch.optim.AdamW(model.parameters(), **HOW)
    for _ in range(STEPS):
        optimizer.zero_grad()
        (model(rows) - rows).pow(2).mean().backward()
        optimizer.step()
    return [each.detach().clone() for each in model.parameters()]


def with_zero(stage, ranks, rows):
    """Return the parameters that a stage of ZeRO trains to, with the rows of this rank."""
    model = made(ranks.device)
    engine, *_ = deepspeed.initialize(
        model=model,
        model_parameters=model.parameters(),
        config={
            "train_micro_batch_size_per_gpu": ROWS,
            "optimizer": {"type": "AdamW", "params": HOW},
            "zero_optimization": {"stage": stage},
        },
    )
    for _ in range(STEPS):
        engine.backward((engine(rows) - rows).pow(2).mean())
        engine.step()
    given = list(engine.module.parameters())
    with deepspeed.zero.GatheredParameters(given) if stage == 3 else contextlib.nullcontext():
        found = [each.detach().clone() for each in given]
    engine.destroy()
    return found


deepspeed.utils.logger.setLevel(logging.WARNING)
ranks = gpu.Ranks()
# On the CPU, with gloo, DeepSpeed 0.18.2 gathers what ZeRO 3 has spread without waiting for it to
# the end: of 30 runs some came to other parameters, with overlap_comm and without.
stages = (0, 1, 2, 3) if ranks.device.type == "cuda" else (0, 1, 2)
torch.manual_seed(22)
rows = torch.randn(ROWS * ranks.size, WIDTH).to(ranks.device)
wanted = plain(ranks.device, rows)
problems, apart = [], {}
for stage in stages:
    print(f"training with ZeRO {stage}", flush=True)
    found = with_zero(stage, ranks, rows[ranks.rank :: ranks.size])
    apart[stage] = max(gpu.apart(one, other) for one, other in zip(found, wanted, strict=True))
    if apart[stage] > ALLOWED:
        problems.append(
            f"ZeRO {stage} trains to parameters that are {apart[stage]:.1e} apart from PyTorch's"
        )
ranks.note("apart", {f"ZeRO {stage}": f"{value:.1e}" for stage, value in apart.items()})
ranks.conclude(problems)
