"""Train a small model with JAX and with NumPy, and compare both."""

import jax
import jax.numpy as jnp
import numpy as np
from lumi_inside.checking import failed, note

STEPS = 40
RATE = 0.5
FALLS_TO = 0.7
"""The largest final loss, relative to the first one; about 0.3 is usual."""
APART = 1e-4
"""How far a weight may be from NumPy's; 1e-6 is usual."""
IMAGES, FEATURES, KINDS = 256, 64, 10

random = np.random.default_rng(0)
labels = random.integers(KINDS, size=IMAGES)
kinds = random.random((KINDS, FEATURES))
images = (kinds[labels] + 0.3 * random.standard_normal((IMAGES, FEATURES))).astype(np.float32)
wanted = np.eye(KINDS, dtype=np.float32)[labels]


def loss_of_one(weights, image, label):
    return -jnp.sum(label * jax.nn.log_softmax(image @ weights))


@jax.jit
def step(weights):
    def loss(weights):
        return jax.vmap(loss_of_one, in_axes=(None, 0, 0))(weights, images, wanted).mean()

    value, gradient = jax.value_and_grad(loss)(weights)
    return weights - RATE * gradient, value


def step_of_numpy(weights):
    odds = images @ weights
    odds = np.exp(odds - odds.max(axis=1, keepdims=True))
    odds /= odds.sum(axis=1, keepdims=True)
    return weights - RATE * images.T @ (odds - wanted) / IMAGES


def train():
    """Train on JAX's first device; fail unless the loss falls as NumPy's does."""
    ours = np.zeros((FEATURES, KINDS), np.float32)
    weights = jnp.asarray(ours)
    losses = []
    for _ in range(STEPS):
        weights, loss = step(weights)
        losses.append(float(loss))
        ours = step_of_numpy(ours)
    print(f"{jax.devices()[0]}: loss {losses[0]:.3f} to {losses[-1]:.3f} in {STEPS} steps")
    if not losses[-1] <= FALLS_TO * losses[0]:
        failed(f"the loss does not fall in {STEPS} steps: {losses[0]:.3f} to {losses[-1]:.3f}")
    apart = float(np.abs(np.asarray(weights) - ours).max())
    if not apart <= APART:
        failed(f"after {STEPS} steps the weights are {apart:.2g} away from NumPy's")
    note("apart", apart)
