"""TensorFlow trains, alone and in ranks of Horovod, and the checks find what trains wrongly."""

from pathlib import Path

import pytest

from .breaking import SITE, Broken, caught, holds

OTHER_GRADIENT = """\
import tensorflow as tf
right = tf.GradientTape.gradient
tf.GradientTape.gradient = lambda *words: {} * right(*words)
"""
SUMS = """\
import functools
import horovod.tensorflow.keras as hvd
from horovod.tensorflow import Sum
hvd.DistributedOptimizer = functools.partial(hvd.DistributedOptimizer, op=Sum)
"""
ALONE = """\
import horovod.tensorflow.keras as hvd
hvd.DistributedOptimizer = lambda optimizer: optimizer
"""
FAULTS = {
    "a gradient of zero": (
        "tensorflow/training",
        OTHER_GRADIENT.format(0),
        "the loss does not fall in 40 steps",
    ),
    "a gradient that is 1 % too large": (
        "tensorflow/training",
        OTHER_GRADIENT.format(1.01),
        "away from NumPy's",
    ),
    "gradients that Horovod adds up": (
        "horovod/training_tensorflow",
        SUMS,
        "away from NumPy's",
    ),
    "ranks that train each alone": (
        "horovod/training_tensorflow",
        ALONE,
        "weights differ from rank 0's on rank 1",
    ),
}


def test_two_ranks_of_horovod_train_a_model_of_keras(tensorflow: Path, tmp_path: Path) -> None:
    holds(Broken(tmp_path).verify(tensorflow, "horovod/training_tensorflow"))


@pytest.mark.parametrize("words", FAULTS)
def test_a_fault_in_training_is_found(tensorflow: Path, tmp_path: Path, words: str) -> None:
    check, fault, reason = FAULTS[words]
    image = Broken(tmp_path).write(f"{SITE}/fault.py", fault)
    image.write(f"{SITE}/fault.pth", "import fault\n")
    caught(image.verify(tensorflow, check), reason)


def test_an_extension_that_is_damaged_is_found(tensorflow: Path, tmp_path: Path) -> None:
    extension = f"{SITE}/horovod/tensorflow/mpi_lib.cpython-311-x86_64-linux-gnu.so"
    image = Broken(tmp_path).write(extension, b"\x7fELF")
    row = image.verify(tensorflow, "horovod/mpi_tensorflow")
    caught(row, "Horovod's TensorFlow extension cannot be loaded")
