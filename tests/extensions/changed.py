"""Show that a training step changed a model."""

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import torch


@contextmanager
def changing(parameters: Iterable[torch.Tensor]) -> Iterator[list[float]]:
    """Take the losses of steps in the body; raise ``AssertionError`` if no parameter changed."""
    kept = [each for each in parameters if each.requires_grad]
    before = [each.detach().clone() for each in kept]
    losses: list[float] = []
    yield losses
    assert losses
    assert all(map(math.isfinite, losses))
    changed = sum(not torch.equal(old, new) for old, new in zip(before, kept, strict=True))
    assert changed
    print(f"trained: loss {losses[-1]:.3f}, {changed} of {len(kept)} tensors changed")


def train_step(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer, objective: Callable[[], torch.Tensor]
) -> None:
    """Take one step of an optimizer, which must change the model."""
    with changing(model.parameters()) as losses:
        loss = objective()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
