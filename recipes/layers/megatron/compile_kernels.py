"""Compile the fused kernels of the Megatron in a folder, into the folder beside their sources."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from types import SimpleNamespace

# Not as `megatron.fused_kernels`: the package imports all of Megatron, with transformers.
spec = spec_from_file_location("fused_kernels", f"{sys.argv[1]}/megatron/fused_kernels/__init__.py")
fused_kernels = module_from_spec(spec)
spec.loader.exec_module(fused_kernels)
fused_kernels.load(SimpleNamespace(rank=0, masked_softmax_fusion=True))
