"""Train on scikit-learn's digits with Lightning."""

from __future__ import annotations

import logging
import os
import sys
import time

import digits
import lightning
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import Adam, Optimizer
from torch.utils.data import DataLoader, TensorDataset

RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
LOCAL_RANKS = int(os.environ["LOCAL_WORLD_SIZE"])


class Training(lightning.LightningModule):
    """Hold the model, what it is trained for, and how."""

    def __init__(self) -> None:
        super().__init__()
        self.model = digits.make_model(RANK)

    def training_step(self, batch: tuple[Tensor, Tensor]) -> Tensor:
        """Return the loss of one batch."""
        images, labels = batch
        return cross_entropy(self.model(images), labels)

    def configure_optimizers(self) -> Optimizer:
        """Return what changes the parameters."""
        return Adam(self.parameters(), lr=digits.LEARNING_RATE)


def main() -> int:
    """Train, and return the exit code."""
    epochs = digits.parse_epochs(__doc__)
    started = time.perf_counter()
    for name in ("lightning", "lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    device = digits.choose_device()

    data = digits.load(device)
    share = max(1, digits.GLOBAL_BATCH // RANKS)
    images_and_labels = TensorDataset(data.train_images, data.train_labels)
    loader = DataLoader(images_and_labels, batch_size=share, shuffle=True, drop_last=True)
    training = Training()
    trainer = lightning.Trainer(
        accelerator="gpu" if device.type == "cuda" else "cpu",
        devices=LOCAL_RANKS,
        num_nodes=RANKS // LOCAL_RANKS,
        max_epochs=epochs,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(training, loader)

    model: nn.Module = training.model.to(device)
    return digits.conclude(model, data, rank=RANK, started=started)


if __name__ == "__main__":
    sys.exit(main())
