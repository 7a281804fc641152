"""Train on scikit-learn's digits with PyTorch's DistributedDataParallel."""

from __future__ import annotations

import sys
import time

import digits
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Adam


def main() -> int:
    """Train, and return the exit code."""
    epochs = digits.parse_epochs(__doc__)
    started = time.perf_counter()
    device = digits.choose_device()
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()

    data = digits.load(device)
    model = DistributedDataParallel(digits.make_model(rank).to(device))
    optimizer = Adam(model.parameters(), lr=digits.LEARNING_RATE)
    for epoch in range(epochs):
        for images, labels in digits.batches(data, epoch, rank=rank, ranks=ranks):
            optimizer.zero_grad()
            cross_entropy(model(images), labels).backward()
            optimizer.step()

    code = digits.conclude(model.module, data, rank=rank, started=started)
    dist.destroy_process_group()
    return code


if __name__ == "__main__":
    sys.exit(main())
