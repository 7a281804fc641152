"""Stands in for PyTorch's translator from CUDA to HIP, which names its version since 1.0.0."""

__version__ = "1.0.0"
