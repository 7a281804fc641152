"""The versions of the shipped images decide which variables ``lint`` warns of."""

from functools import cache
from typing import Any

import pytest

from lumicontainer.core.catalog import open_catalog
from lumicontainer.core.plan.records import resolved_record
from lumicontainer.core.resolve.resolve import resolve
from lumicontainer.jobs.lint.lint import judge_script

CATALOG = open_catalog()
SCRIPT = """\
#!/bin/bash
#SBATCH --nodes={nodes}
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
export SINGULARITY_BIND=/pfs,/scratch
export {variable}
srun --mpi=pmi2 singularity exec image.sif lumi-entry train.py
"""
ROCM_6, ROCM_7 = "rocm-6.4.4", "rocm-7.0.2"


@cache
def record(profile: str) -> dict[str, Any]:
    return resolved_record(resolve(CATALOG.materials("pytorch-deepspeed", "lumi-g", profile)))


@pytest.mark.parametrize(
    ("variable", "nodes", "profiles"),
    [
        ("NCCL_NET_GDR_LEVEL=PHB", 2, [ROCM_7]),
        ("NCCL_MAX_NCHANNELS=32", 8, [ROCM_7]),
        ("NCCL_MAX_NCHANNELS=32", 4, []),
        ("ROCBLAS_INTERNAL_FP16_ALT_IMPL=1", 1, [ROCM_6]),
        ("OFI_NCCL_PROTOCOL=RDMA", 2, [ROCM_6, ROCM_7]),
        ("NCCL_NET=Socket", 2, [ROCM_6, ROCM_7]),
        ("NCCL_NET=Socket", 1, []),
        ("NCCL_NET=OFI", 2, []),
        ("NCCL_NET=OFI", 1, [ROCM_6, ROCM_7]),
    ],
)
def test_a_value_is_discouraged_for_the_images_that_it_harms(
    variable: str, nodes: int, profiles: list[str]
) -> None:
    script = SCRIPT.format(nodes=nodes, variable=variable).encode()
    lumi = CATALOG.platform("lumi-g")
    for profile in (ROCM_6, ROCM_7):
        rules = [each.rule for each in judge_script("job.sh", script, lumi, record(profile))]
        assert rules == ["discouraged-variable"] * (profile in profiles)
