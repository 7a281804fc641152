"""Ranks that train wrongly are found out by the check that trains with what they use.

A fault is a module that Python imports first in each rank of a check, and nowhere else: it changes
one thing in torch, DeepSpeed or Horovod, on all ranks or on one.
"""

import re
from pathlib import Path

import pytest

from . import gpu
from .breaking import Broken, caught, holds

IN_RANKS = "import os\nrank = int(os.environ.get('RANK', -1))\nif rank >= 0:\n"
ENGINE = """\
    import deepspeed
    initialize = deepspeed.initialize
    def broken(*words, **more):
        engine, *rest = initialize(*words, **more)
        backward, step = engine.backward, engine.step
        def changed():
            step()
            if rank == 1:
                next(engine.module.parameters()).data.add_(1e-3)
        {}
        return engine, *rest
    deepspeed.initialize = broken
"""
DEEPSPEED_ALONE = ENGINE.format("engine.step = changed")
DEEPSPEED_SCALES = ENGINE.format("engine.backward = lambda loss: backward(1.5 * loss)")
OTHER_GRADIENTS = """\
    import torch.nn.functional as functional
    loss = functional.cross_entropy
    if rank == 1:
        functional.cross_entropy = lambda *words: 1.01 * loss(*words)
"""
STANDS_STILL = """\
    from torch.optim import SGD
    SGD.step = lambda self, *words: None
"""
ALONE = """\
    from torch.nn.parallel import DistributedDataParallel
    DistributedDataParallel.forward = lambda self, images: self.module(images)
"""
SUMS = """\
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    begin = DistributedDataParallel.__init__
    def summed(_, bucket):
        work = dist.all_reduce(bucket.buffer(), async_op=True)
        return work.get_future().then(lambda done: done.value()[0])
    def broken(self, *words):
        begin(self, *words)
        self.register_comm_hook(None, summed)
    DistributedDataParallel.__init__ = broken
"""
HOROVOD_SUMS = """\
    import functools
    import horovod.torch as hvd
    hvd.DistributedOptimizer = functools.partial(hvd.DistributedOptimizer, op=hvd.Sum)
"""
FAULTS = [
    ("pytorch/training", OTHER_GRADIENTS, "other gradients from the same images; .*rank 1: "),
    ("pytorch/training", STANDS_STILL, "the loss does not fall in 20 steps on rank 0, 1"),
    ("pytorch/training", ALONE, "parameters differ from rank 0's on rank 1"),
    ("pytorch/training", SUMS, "the gradients are not averaged over the ranks"),
    ("deepspeed/training", DEEPSPEED_ALONE, "parameters differ from rank 0's on rank 1"),
    ("deepspeed/training", DEEPSPEED_SCALES, "the gradients are not averaged over the ranks"),
    ("horovod/training", HOROVOD_SUMS, "the gradients are not averaged over the ranks"),
]
"""A check, what is changed, and the reason. All three checks judge by one function."""
WITHOUT_SCIKIT_LEARN = """\
import importlib.util as util
find = util.find_spec
util.find_spec = lambda name, *more: None if name == 'sklearn' else find(name, *more)
"""


@pytest.mark.parametrize(
    ("check", "fault", "reason"), FAULTS, ids=[f"{check}-{reason}" for check, _, reason in FAULTS]
)
def test_a_fault_in_training_is_found(
    image: Path, broken: Broken, check: str, fault: str, reason: str
) -> None:
    row = broken.first(IN_RANKS + fault).verify(image, check)
    caught(row)
    assert re.search(reason, row["reason"]), row["reason"]


def test_ranks_of_mpi_that_do_not_find_each_other_are_found(image: Path, broken: Broken) -> None:
    broken.write("/opt/venv/bin/mpiexec", '#!/bin/sh\nshift 2\n"$@" && "$@"\n', 0o755)
    row = broken.verify(image, "horovod/training")
    caught(row, "MPI has one rank: the ranks did not find each other")


def test_images_without_scikit_learn_train_on_made_up_images(image: Path, broken: Broken) -> None:
    row = broken.first(WITHOUT_SCIKIT_LEARN).verify(image, "pytorch/training")
    holds(row)
    assert "made-up images" in row["output"]


def test_ranks_that_would_share_a_gpu_train_on_the_cpu(image: Path, tmp_path: Path) -> None:
    names = ("pytorch/training", "deepspeed/training", "horovod/training")
    node = gpu.Node(gpus=1, env={"DS_ACCELERATOR": "cuda"})
    for row in gpu.verify(image, tmp_path, node, *names).values():
        holds(row)
        assert row["facts"]["device"] == "cpu"
