"""Functions for checks that train one linear layer: made-up images, and NumPy's own training."""

import numpy as np
from lumi_inside.checking import failed, note

STEPS = 40
RATE = 0.5
FALLS_TO = 0.7
"""The largest final loss, relative to the first one; about 0.3 is usual."""
APART = 1e-4
"""How far a weight may be from NumPy's; 1e-6 is usual."""
IMAGES, FEATURES, KINDS = 256, 64, 10


def load():
    """Return images (256, 64) and labels (256, 10), the same on every rank."""
    random = np.random.default_rng(0)
    labels = random.integers(KINDS, size=IMAGES)
    kinds = random.random((KINDS, FEATURES))
    images = (kinds[labels] + 0.3 * random.standard_normal((IMAGES, FEATURES))).astype(np.float32)
    return images, np.eye(KINDS, dtype=np.float32)[labels]


def conclude(start, weights, losses, data):
    """Fail if the weights (64, 10) are not what NumPy makes of ``start``."""
    images, wanted = data
    print(f"loss {losses[0]:.3f} to {losses[-1]:.3f} in {STEPS} steps")
    if not losses[-1] <= FALLS_TO * losses[0]:
        failed(f"the loss does not fall in {STEPS} steps: {losses[0]:.3f} to {losses[-1]:.3f}")
    for _ in range(STEPS):
        odds = images @ start
        odds = np.exp(odds - odds.max(axis=1, keepdims=True))
        odds /= odds.sum(axis=1, keepdims=True)
        start = start - RATE * images.T @ (odds - wanted) / len(images)
    apart = float(np.abs(weights - start).max())
    if not apart <= APART:
        failed(f"after {STEPS} steps the weights are {apart:.2g} away from NumPy's")
    note("apart", apart)
