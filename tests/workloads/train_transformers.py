"""Train on scikit-learn's digits with the Trainer of Hugging Face's transformers."""

from __future__ import annotations

import sys
import tempfile
import time

import digits
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset
from transformers import PrinterCallback, Trainer, TrainingArguments


class Model(nn.Module):
    """Answer as the models of transformers do: with the loss, if the labels are given."""

    def __init__(self, rank: int) -> None:
        super().__init__()
        self.network = digits.make_model(rank)

    def forward(self, images: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Return the loss, and the score of each of the ten digits."""
        logits = self.network(images)
        return {"loss": cross_entropy(logits, labels), "logits": logits}


def collate(rows: list[tuple[Tensor, Tensor]]) -> dict[str, Tensor]:
    """Make a batch, named as the model wants it."""
    images, labels = zip(*rows, strict=True)
    return {"images": torch.stack(images), "labels": torch.stack(labels)}


def main() -> int:
    """Train, and return the exit code."""
    epochs = digits.parse_epochs(__doc__)
    started = time.perf_counter()
    device = digits.choose_device()
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            num_train_epochs=epochs,
            learning_rate=digits.LEARNING_RATE,
            use_cpu=device.type == "cpu",
            ddp_find_unused_parameters=False,
            dataloader_drop_last=True,
            dataloader_pin_memory=False,
            disable_tqdm=True,
            logging_strategy="no",
            save_strategy="no",
            report_to="none",
        )
        rank, ranks = arguments.process_index, arguments.world_size
        arguments.per_device_train_batch_size = max(1, digits.GLOBAL_BATCH // ranks)
        data = digits.load(torch.device("cpu"))
        trainer = Trainer(
            model=Model(rank),
            args=arguments,
            data_collator=collate,
            train_dataset=TensorDataset(data.train_images, data.train_labels),
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()

    model = trainer.accelerator.unwrap_model(trainer.model).network.cpu()
    code = digits.conclude(model, data, rank=rank, started=started)
    trainer.accelerator.end_training()
    return code


if __name__ == "__main__":
    sys.exit(main())
