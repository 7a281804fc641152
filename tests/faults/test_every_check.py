"""No check is shipped that has not been seen to fail for a fault."""

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
    test_tensorflow,
    test_training,
)

CAUGHT = {
    *(check for _, _, check, _ in test_gpu_checks.FAULTS),
    *(check for check, *_ in test_layers.FAULTS),
    *test_rocm_layers.FAULTS,
    *test_rocm_layers.WITHOUT,
    *(check for check, *_ in test_tensorflow.FAULTS),
    *(check for check, *_ in test_training.FAULTS),
    *(test_gpu_code.CODE, test_gpu_code.WAVE, test_gpu_code.TRITON),
    *(test_environment.CHECK, test_linkage.CHECK, test_rccl_plugin.CHECK),
    *(test_rocm_programs.COMPUTES, test_rocm_programs.OSU, test_rocm_programs.SLINGSHOT),
    # Their faults stand in no table, but in tests: in test_contents,
    *("image/files", "image/imports", "image/packages", "image/record"),
    # in test_gpu_code, test_jax and test_tensorflow,
    *("pytorch/bundled", "jax/training", "horovod/mpi_tensorflow"),
    # and in test_jax, test_libraries_torch and test_rocm_layer of tests/recipes.
    *("jax/compiles", "jax/gpu", "jax/plugin", "pytorch/libraries", "rocm/restored"),
}


def test_every_check_is_seen_to_fail() -> None:
    """Files that begin with '_' are what checks share."""
    own = {("image", path) for path in ROOT.glob("recipes/checks/**/*.*")}
    layers = ROOT.glob("recipes/layers/*/checks/**/*.*")
    checks = own | {(path.relative_to(ROOT).parts[2], path) for path in layers}
    shipped = {
        f"{owner}/{path.stem}"
        for owner, path in checks
        if path.suffix in (".py", ".sh") and path.name[0] != "_"
    }
    assert shipped == CAUGHT
