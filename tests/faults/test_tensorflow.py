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
TRAINING, OF_HOROVOD = "tensorflow/training", "horovod/training_tensorflow"
FAULTS = [
    (TRAINING, OTHER_GRADIENT.format(0), "the loss does not fall in 40 steps"),
    (TRAINING, OTHER_GRADIENT.format(1.01), "away from NumPy's"),
    (OF_HOROVOD, SUMS, "away from NumPy's"),
    (OF_HOROVOD, ALONE, "weights differ from rank 0's on rank 1"),
]


def test_two_ranks_of_horovod_train_a_model_of_keras(tensorflow: Path, broken: Broken) -> None:
    holds(broken.verify(tensorflow, OF_HOROVOD))


@pytest.mark.parametrize(
    ("check", "fault", "reason"), FAULTS, ids=[f"{check}-{reason}" for check, _, reason in FAULTS]
)
def test_a_fault_in_training_is_found(
    tensorflow: Path, broken: Broken, check: str, fault: str, reason: str
) -> None:
    caught(broken.first(fault).verify(tensorflow, check), reason)


def test_an_extension_that_is_damaged_is_found(tensorflow: Path, broken: Broken) -> None:
    extension = f"{SITE}/horovod/tensorflow/mpi_lib.cpython-311-x86_64-linux-gnu.so"
    row = broken.write(extension, b"\x7fELF").verify(tensorflow, "horovod/mpi_tensorflow")
    caught(row, "Horovod's TensorFlow extension cannot be loaded")
