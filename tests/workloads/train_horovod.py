"""Train on scikit-learn's digits with Horovod."""

from __future__ import annotations

import sys
import time

import digits
import horovod.torch as hvd
from torch.nn.functional import cross_entropy
from torch.optim import Adam


def main() -> int:
    """Train, and return the exit code."""
    epochs = digits.parse_epochs(__doc__)
    started = time.perf_counter()
    hvd.init()
    device = digits.choose_device()

    data = digits.load(device)
    model = digits.make_model(hvd.rank()).to(device)
    optimizer = hvd.DistributedOptimizer(
        Adam(model.parameters(), lr=digits.LEARNING_RATE),
        named_parameters=model.named_parameters(),
    )
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    for epoch in range(epochs):
        for images, labels in digits.batches(data, epoch, rank=hvd.rank(), ranks=hvd.size()):
            optimizer.zero_grad()
            cross_entropy(model(images), labels).backward()
            optimizer.step()

    code = digits.conclude(
        model, data, gather=hvd.allgather_object, rank=hvd.rank(), started=started
    )
    hvd.shutdown()
    return code


if __name__ == "__main__":
    sys.exit(main())
