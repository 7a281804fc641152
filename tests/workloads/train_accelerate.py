"""Train on scikit-learn's digits with Hugging Face Accelerate."""

from __future__ import annotations

import sys
import time

import digits
from accelerate import Accelerator
from accelerate.utils import gather_object
from torch.nn.functional import cross_entropy
from torch.optim import Adam
from torch.utils.data import DataLoader, TensorDataset


def main() -> int:
    """Train, and return the exit code."""
    epochs = digits.parse_epochs(__doc__)
    started = time.perf_counter()
    # Set to run on CPUs, it joins the ranks; else each would train on its own.
    accelerator = Accelerator(cpu=digits.choose_device().type == "cpu")
    rank, ranks = accelerator.process_index, accelerator.num_processes

    data = digits.load(accelerator.device)
    model = digits.make_model(rank)
    share = max(1, digits.GLOBAL_BATCH // ranks)
    images_and_labels = TensorDataset(data.train_images, data.train_labels)
    loader = DataLoader(images_and_labels, batch_size=share, shuffle=True, drop_last=True)
    optimizer = Adam(model.parameters(), lr=digits.LEARNING_RATE)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for _ in range(epochs):
        for images, labels in loader:
            optimizer.zero_grad()
            accelerator.backward(cross_entropy(model(images), labels))
            optimizer.step()

    code = digits.conclude(
        accelerator.unwrap_model(model),
        data,
        gather=lambda value: gather_object([value]),
        rank=rank,
        started=started,
    )
    accelerator.end_training()
    return code


if __name__ == "__main__":
    sys.exit(main())
