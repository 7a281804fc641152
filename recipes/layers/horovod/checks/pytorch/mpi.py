# /// check
# summary: Horovod has MPI and its PyTorch extension, and averages
# imports: [torch]
# hint: rebuild the layer horovod, after pytorch and mpich
# ///

import sys

import torch

try:
    import horovod.torch as hvd
except ImportError as error:
    sys.exit(f"Horovod's PyTorch extension cannot be loaded: {error}")

if not hvd.mpi_built():
    sys.exit("Horovod is built without MPI")
if hvd.gloo_built():
    sys.exit("Horovod is built with gloo, which this image does not use")

hvd.init()
mean = hvd.allreduce(torch.full((3,), 2.0)).tolist()
print(f"MPI, {hvd.size()} rank, average {mean}")
if mean != [2.0, 2.0, 2.0]:
    sys.exit(f"Horovod averages [2, 2, 2] over one rank to {mean}")
