# /// check
# summary: >-
#   after steps of DDP all ranks hold the same parameters, those of training on one of them with all
#   rows
# level: full
# runs: ranks
# timeout_seconds: 240
# needs: {gpus: 1, tasks: 2}
# hint: check pytorch/collectives; a GPU that computes wrongly is the one of the rank that differs
# ///

import hashlib

import _gpu as gpu
import torch
from torch import nn

STEPS, ROWS, WIDTH = 5, 16, 64
ALLOWED = 1e-4
"""Gradients are added in another order than on one rank."""


def made(on):
    """Return a model that is the same everywhere, and its optimizer."""
    torch.manual_seed(5)
    model = nn.Sequential(nn.Linear(WIDTH, 128), nn.GELU(), nn.Linear(128, WIDTH)).to(on)
    return model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def trained(model, optimizer, rows):
    """Train a model to give its rows back; return the losses."""
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = (model(rows) - rows).pow(2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def checksum(model):
    """Return a digest of a model's parameters, to the last bit."""
    digest = hashlib.sha256()
    for each in model.parameters():
        digest.update(each.detach().cpu().numpy().tobytes())
    return digest.hexdigest()[:16]


ranks = gpu.Ranks()
torch.manual_seed(6)
rows = torch.randn(ROWS * ranks.size, WIDTH).to(ranks.device)
alone, optimizer = made(ranks.device)
trained(alone, optimizer, rows)
model, optimizer = made(ranks.device)
on = [ranks.device] if ranks.device.type == "cuda" else None
wrapped = nn.parallel.DistributedDataParallel(model, device_ids=on)
losses = trained(wrapped, optimizer, rows[ranks.rank :: ranks.size])

problems = []
sums = ranks.gathered(checksum(model))
ranks.note("checksums", sums)
usual = max(sums, key=sums.count)
odd = [str(rank) for rank, each in enumerate(sums) if each != usual]
if odd:
    problems.append(f"ranks that hold other parameters than the rest: {', '.join(odd)}")
apart = max(gpu.apart(a, b) for a, b in zip(model.parameters(), alone.parameters(), strict=True))
if apart > ALLOWED:
    problems.append(f"the parameters are {apart:.1e} apart from the result of training on one rank")
if losses[-1] >= losses[0]:
    problems.append(f"the loss does not fall: {losses[0]:.4g}, then {losses[-1]:.4g}")
ranks.conclude(problems)
