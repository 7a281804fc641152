"""Train a network of Keras with Horovod, on made-up images; each rank has its share of them."""

from __future__ import annotations

import sys

import horovod.tensorflow.keras as hvd
import numpy as np
import tensorflow as tf

EPOCHS = 10
ACCURACY_REQUIRED = 0.95


def images(seed: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return images (count, 64) of ten kinds with noise, and their labels (count,)."""
    kinds = np.random.default_rng(0).random((10, 64))
    random = np.random.default_rng(seed)
    labels = random.integers(10, size=count)
    return kinds[labels] + 0.3 * random.standard_normal((count, 64)), labels


def main() -> int:
    """Train, and return the exit code."""
    hvd.init()
    network = tf.keras.Sequential([tf.keras.layers.Dense(32, "relu"), tf.keras.layers.Dense(10)])
    network.compile(
        hvd.DistributedOptimizer(tf.keras.optimizers.Adam(1e-2)),
        tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    first = [hvd.callbacks.BroadcastGlobalVariablesCallback(0)]
    network.fit(*images(1 + hvd.rank(), 1024), 64, EPOCHS, verbose=0, callbacks=first)
    _, accuracy = network.evaluate(*images(0, 1024), verbose=0)
    if hvd.rank() == 0:
        print(f"accuracy {accuracy:.4f} · {hvd.size()} ranks")
    hvd.shutdown()
    return int(accuracy < ACCURACY_REQUIRED)


if __name__ == "__main__":
    sys.exit(main())
