"""Ranks that train wrongly are found out by the check that trains with what they use.

A fault is a module that Python imports first in each rank of a check, and nowhere else: it changes
one thing in torch, DeepSpeed or Horovod, on all ranks or on one.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ..programs import run

IN_RANKS = "import os\nrank = int(os.environ.get('RANK', -1))\nif rank >= 0:\n"
STEP = """\
    from torch.optim import SGD
    step = SGD.step
    def broken(self, *words):
        {}
    SGD.step = broken
"""
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
OTHER_GRADIENTS = """\
    import torch.nn.functional as functional
    loss = functional.cross_entropy
    if rank == 1:
        functional.cross_entropy = lambda *words: 1.01 * loss(*words)
"""
STANDS_STILL = STEP.format("return None")
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

FAULTS = {
    "a rank whose GPU computes another gradient": (
        OTHER_GRADIENTS,
        "pytorch/training",
        "other gradients from the same images; their norms are .*rank 1: ",
    ),
    "an optimizer that changes nothing": (
        STANDS_STILL,
        "pytorch/training",
        "the loss does not fall in 20 steps on rank 0, 1",
    ),
    "a rank whose parameters DeepSpeed leaves as its own": (
        ENGINE.format("engine.step = changed"),
        "deepspeed/training",
        "parameters differ from rank 0's on rank 1",
    ),
    "ranks that train each alone": (
        ALONE,
        "pytorch/training",
        "parameters differ from rank 0's on rank 1",
    ),
    "gradients that are added up and not averaged": (
        SUMS,
        "pytorch/training",
        "the gradients are not averaged over the ranks",
    ),
    "gradients that DeepSpeed scales": (
        ENGINE.format("engine.backward = lambda loss: backward(1.5 * loss)"),
        "deepspeed/training",
        "the gradients are not averaged over the ranks",
    ),
    "gradients that Horovod adds up": (
        HOROVOD_SUMS,
        "horovod/training",
        "the gradients are not averaged over the ranks",
    ),
}
"""What each changes, the check that finds it, and its reason. All three judge by one function."""
ALONE_UNDER_MPIEXEC = '#!/bin/sh\nshift 2\n"$@" && "$@"\n'


def verified(image: Path, check: str, *options: object) -> dict[str, Any]:
    """Return what came of one check in a container that is started with the options."""
    command = ("lumi-verify", "-k", check, "--json", "-")
    env = {"SINGULARITY_USERNS": "1", "APPTAINER_USERNS": "1"}
    done = run(["singularity", "-s", "exec", *options, image, *command], env=env)
    assert done.stdout, done.stderr
    (row,) = json.loads(done.stdout)["checks"]
    return dict(row)


@pytest.mark.parametrize("words", FAULTS)
def test_a_fault_in_training_is_found(image: Path, tmp_path: Path, words: str) -> None:
    fault, check, reason = FAULTS[words]
    (tmp_path / "sitecustomize.py").write_text(IN_RANKS + fault)
    row = verified(image, check, "--bind", f"{tmp_path}:/fault", "--env", "PYTHONPATH=/fault")
    assert row["state"] == "failed", row["output"]
    assert re.search(reason, row["reason"]), row["reason"]


def test_ranks_of_mpi_that_do_not_find_each_other_are_found(image: Path, tmp_path: Path) -> None:
    stand_in = tmp_path / "mpiexec"
    stand_in.write_text(ALONE_UNDER_MPIEXEC)
    stand_in.chmod(0o755)
    row = verified(image, "horovod/training", "--bind", f"{stand_in}:/opt/venv/bin/mpiexec")
    assert row["state"] == "failed"
    assert "MPI has one rank: the ranks did not find each other" in row["reason"]


def test_images_without_scikit_learn_train_on_made_up_images(image: Path, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util as util\nfind = util.find_spec\n"
        "util.find_spec = lambda name, *more: None if name == 'sklearn' else find(name, *more)\n"
    )
    row = verified(
        image, "pytorch/training", "--bind", f"{tmp_path}:/fault", "--env", "PYTHONPATH=/fault"
    )
    assert (row["state"], "made-up images" in row["output"]) == ("passed", True)
