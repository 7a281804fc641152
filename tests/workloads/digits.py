"""Hold what the training programs share: the data, the model, the shards and the verdict.

The data are handwritten digits that come with scikit-learn: 1,797 images of 8 by 8 pixels.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

GLOBAL_BATCH = 256
LEARNING_RATE = 1e-2
ACCURACY_REQUIRED = 0.95


class Digits(NamedTuple):
    """Hold images (N, 1, 8, 8) in 0..1 and labels (N,) in 0..9, to train and to test."""

    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor


def parse_epochs(description: str | None) -> int:
    """Read the number of epochs from the command line."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--epochs", type=int, default=12, help="passes over the data (default: %(default)s)"
    )
    return parser.parse_args().epochs


def choose_device() -> torch.device:
    """Take this rank's GPU, or the CPU if there is none."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    # A launcher may show each rank one GPU only, or all of the node's.
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    torch.cuda.set_device(device)
    return device


def load(device: torch.device) -> Digits:
    """Split the images, the same on every rank: four fifths to train, one fifth to test."""
    images, labels = load_digits(return_X_y=True)
    train_images, test_images, train_labels, test_labels = train_test_split(
        images.reshape(-1, 1, 8, 8) / 16, labels, test_size=0.2, stratify=labels, random_state=0
    )
    return Digits(
        torch.tensor(train_images, dtype=torch.float32, device=device),
        torch.tensor(train_labels, device=device),
        torch.tensor(test_images, dtype=torch.float32, device=device),
        torch.tensor(test_labels, device=device),
    )


def make_model(rank: int) -> nn.Module:
    """Make the network with weights of this rank's own.

    Ranks that start apart and end together have been synchronized by the framework.
    """
    torch.manual_seed(rank)
    return nn.Sequential(
        nn.Conv2d(1, 16, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 4 * 4, 10),
    )


def batches(data: Digits, epoch: int, *, rank: int, ranks: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield this rank's share of the epoch's batches, as many and as large as every other rank's.

    All ranks together take `GLOBAL_BATCH` images a step, so the training does not depend on how
    many they are.
    """
    share = max(1, GLOBAL_BATCH // ranks)
    order = torch.randperm(len(data.train_labels), generator=torch.Generator().manual_seed(epoch))
    for first in range(0, len(order) - share * ranks + 1, share * ranks):
        mine = order[first + rank * share : first + (rank + 1) * share]
        yield data.train_images[mine], data.train_labels[mine]


def measure_accuracy(model: nn.Module, data: Digits) -> float:
    """Return the part of the test images that the model names rightly."""
    model.eval()
    with torch.no_grad():
        named = model(data.test_images).argmax(dim=1)
    return (named == data.test_labels).sum().item() / len(data.test_labels)


def checksum(model: nn.Module) -> str:
    """Hash every bit of every parameter, in order."""
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.detach().cpu().numpy().tobytes())
    return digest.hexdigest()


def gather(value: str) -> list[str]:
    """Hand the values of all ranks, in their order, to every rank."""
    values = [value]
    if dist.is_initialized():
        values *= dist.get_world_size()
        dist.all_gather_object(values, value)
    return values


def conclude(
    model: nn.Module,
    data: Digits,
    *,
    rank: int,
    started: float,
    gather: Callable[[str], list[str]] = gather,
) -> int:
    """Compare the ranks, print the result from rank 0, and return the exit code of every rank.

    `started` is when the program was, as `time.perf_counter()` counts.
    """
    seconds = time.perf_counter() - started
    checksums = gather(checksum(model))
    accuracy = measure_accuracy(model, data)
    apart = [str(other) for other, value in enumerate(checksums) if value != checksums[0]]
    problems = []
    if apart:
        problems.append(f"parameters differ from rank 0's on rank {', '.join(apart)}")
    if accuracy < ACCURACY_REQUIRED:
        problems.append(
            f"accuracy {accuracy:.3f} is below {ACCURACY_REQUIRED}: train for at least 12 epochs"
        )
    if rank == 0:
        for problem in problems:
            print(f"error: {problem}", file=sys.stderr, flush=True)
        if not problems:
            agree = f"{len(checksums)} ranks agree" if len(checksums) > 1 else "1 rank"
            print(f"accuracy {accuracy:.3f} · {agree} · {seconds:.1f} s", flush=True)
    return 1 if problems else 0
