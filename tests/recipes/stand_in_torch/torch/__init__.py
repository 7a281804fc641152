"""Stands in for PyTorch's wheel for ROCm: what build scripts ask of it without a GPU."""

from types import SimpleNamespace

from torch import cuda as cuda
from torch import utils as utils

__version__ = "2.9.1+rocm6.4"
version = SimpleNamespace(hip="6.4.43484-123eb5128", cuda=None)
torch = SimpleNamespace(compiled_with_cxx11_abi=lambda: True)
bfloat16, half, float32 = "bfloat16", "half", "float32"


def compiled_with_cxx11_abi():
    return True
