# /// check
# summary: Horovod is built for ROCm and RCCL, and shares the image's RCCL with PyTorch
# hint: rebuild the layer horovod, after pytorch
# ///

import os
import sys
from pathlib import Path

import horovod.torch as hvd
import torch  # noqa: F401 - it loads the HIP that Horovod uses
from lumi_inside.checking import memory_map

IMAGE = Path(os.environ.get("ROCM_PATH", "/opt/rocm"), "lib").resolve()

if not hvd.rocm_built():
    sys.exit("Horovod is built without ROCm")
if not hvd.nccl_built():
    sys.exit("Horovod is built without RCCL: it would move gradients over MPI")

lines = [line for line in memory_map().splitlines() if "/librccl.so" in line]
mapped = {Path(line.split(maxsplit=5)[-1]) for line in lines}
print(*sorted(mapped))
if len(mapped) != 1 or not all(path.resolve().is_relative_to(IMAGE) for path in mapped):
    sys.exit(f"Horovod and PyTorch do not share the image's RCCL, which lies in {IMAGE}")
