"""No check is shipped that has not been seen to fail for a fault."""

from __future__ import annotations

from ..conftest import ROOT
from . import (
    test_environment,
    test_gpu_checks,
    test_gpu_code,
    test_layers,
    test_linkage,
    test_rccl_plugin,
    test_rocm_layers,
    test_rocm_programs,
    test_training,
)

OWN_TESTS = {
    "tests/faults/test_contents.py": {
        *("image/files", "image/imports", "image/packages", "image/record"),
    },
    "tests/faults/test_gpu_code.py": {"pytorch/bundled"},
    "tests/faults/test_jax.py": {"jax/training"},
    "tests/faults/test_tensorflow.py": {
        *("tensorflow/training", "horovod/mpi_tensorflow", "horovod/training_tensorflow"),
    },
    "tests/recipes/test_libraries_torch.py": {"pytorch/libraries"},
    "tests/recipes/test_rocm_layer.py": {"rocm/restored"},
}
"""Checks whose faults stand in no table, with the module that has tests of them."""


def shipped() -> set[str]:
    """Return the names of all checks; files that begin with '_' are what checks share."""
    own = dict.fromkeys(ROOT.glob("recipes/checks/**/*.*"), "image")
    layers = {
        path: path.relative_to(ROOT).parts[2]
        for path in ROOT.glob("recipes/layers/*/checks/**/*.*")
    }
    found = {
        path: owner for path, owner in {**own, **layers}.items() if path.suffix in (".py", ".sh")
    }
    return {f"{owner}/{path.stem}" for path, owner in found.items() if path.name[0] != "_"}


def caught() -> set[str]:
    """Return the names of the checks that the tables of faults have rows for."""
    return {
        *(check for _, check, _ in test_layers.FAULTS.values()),
        *(check for _, check, _ in test_rocm_layers.FAULTS.values()),
        *(row[1] for row in test_rocm_programs.ON_NODES.values() if row[2] == "failed"),
        *(row[2] for row in test_gpu_checks.FAULTS if row[3] == "failed"),
        *(check for _, check, _ in test_training.FAULTS.values()),
        *(test_gpu_code.CODE, test_gpu_code.WAVE, test_gpu_code.TRITON),
        *(
            test_environment.CHECK,
            test_linkage.CHECK,
            test_rccl_plugin.CHECK,
            test_rocm_programs.OSU,
        ),
        *(check for checks in OWN_TESTS.values() for check in checks),
    }


def test_every_check_is_seen_to_fail() -> None:
    assert caught() == shipped()
