"""Train on scikit-learn's digits with DeepSpeed, ZeRO stage 1."""

from __future__ import annotations

import logging
import sys
import time

import deepspeed
import digits
import torch.distributed as dist
from torch.nn.functional import cross_entropy


def main() -> int:
    """Train, and return the exit code."""
    epochs = digits.parse_epochs(__doc__)
    started = time.perf_counter()
    deepspeed.utils.logger.setLevel(logging.WARNING)
    device = digits.choose_device()
    deepspeed.init_distributed()
    rank, ranks = dist.get_rank(), dist.get_world_size()

    data = digits.load(device)
    model = digits.make_model(rank)
    engine, *_ = deepspeed.initialize(
        model=model,
        model_parameters=model.parameters(),
        config={
            "train_micro_batch_size_per_gpu": max(1, digits.GLOBAL_BATCH // ranks),
            "optimizer": {"type": "Adam", "params": {"lr": digits.LEARNING_RATE}},
            "zero_optimization": {"stage": 1},
        },
    )
    for epoch in range(epochs):
        for images, labels in digits.batches(data, epoch, rank=rank, ranks=ranks):
            engine.backward(cross_entropy(engine(images), labels))
            engine.step()

    code = digits.conclude(engine.module, data, rank=rank, started=started)
    dist.destroy_process_group()
    return code


if __name__ == "__main__":
    sys.exit(main())
