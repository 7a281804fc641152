"""Train on scikit-learn's digits with PyTorch's FSDP: each rank holds a part of every parameter."""

from __future__ import annotations

import sys
import time

import digits
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.functional import cross_entropy
from torch.optim import Adam


def shard(model: nn.Module, device: str, ranks: int) -> None:
    """Give every rank its part of each layer's parameters, those that rank 0 has."""
    for parameter in model.parameters():
        dist.broadcast(parameter.data, src=0)
    mesh = init_device_mesh(device, (ranks,))
    for layer in model.children():
        if isinstance(layer, (nn.Conv2d, nn.Linear)):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)


def whole(model: nn.Module, device: torch.device) -> nn.Module:
    """Put the parts of all ranks together: a model as it was before each rank took its part."""
    same = digits.make_model(0).to(device)
    for parameter, sharded in zip(same.parameters(), model.parameters(), strict=True):
        parameter.data.copy_(sharded.full_tensor())
    return same


def main() -> int:
    """Train, and return the exit code."""
    epochs = digits.parse_epochs(__doc__)
    started = time.perf_counter()
    device = digits.choose_device()
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()

    data = digits.load(device)
    model = digits.make_model(rank).to(device)
    shard(model, device.type, ranks)
    optimizer = Adam(model.parameters(), lr=digits.LEARNING_RATE)
    for epoch in range(epochs):
        for images, labels in digits.batches(data, epoch, rank=rank, ranks=ranks):
            optimizer.zero_grad()
            cross_entropy(model(images), labels).backward()
            optimizer.step()

    code = digits.conclude(whole(model, device), data, rank=rank, started=started)
    dist.destroy_process_group()
    return code


if __name__ == "__main__":
    sys.exit(main())
