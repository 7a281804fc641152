# /// check
# summary: FlashAttention's kernels in Triton compile for gfx90a and fit into its shared memory
# timeout_seconds: 600
# hint: read the compiler's error; try another version of the layer triton or flash-attention
# ///

import contextlib
import os
import sys
import tempfile
import types
from importlib.util import find_spec
from itertools import product

import torch
import triton
from triton.backends.compiler import GPUTarget

TARGET = GPUTarget("hip", "gfx90a", 64)
# Bytes of the local data share of a compute unit (AMD, Instinct MI200 ISA).
SHARED_MEMORY = 64 * 1024
# EM_AMDGPU and EF_AMDGPU_MACH_AMDGCN_GFX90A (LLVM, AMDGPUUsage.rst).
GFX90A = (224, 0x3F)


class CompileOnly:
    """Stand in for Triton's driver: compile for gfx90a, collect the code, start nothing."""

    def __init__(self):
        self.compiled = {}
        self.utils = self

    def get_current_target(self):
        return TARGET

    def get_current_device(self):
        return 0

    def get_current_stream(self, device):
        del device
        return 0

    def get_device_properties(self, device):
        del device
        return {"max_shared_mem": SHARED_MEMORY, "multiprocessor_count": 110}

    def load_binary(self, name, code, shared, device):
        del shared, device
        self.compiled.setdefault(name, []).append(code)
        return None, None, 0, 0, 1024

    def launcher_cls(self, source, metadata):
        del source, metadata
        return lambda *_: None


def stand_in_for_a_gpu(driver):
    """Let FlashAttention take tensors of the CPU for tensors of a GPU."""
    triton.runtime.driver.set_active(driver)
    torch.Tensor.is_cuda = True
    torch.cuda.current_device = lambda: None
    properties = types.SimpleNamespace(multi_processor_count=110)
    torch.cuda.get_device_properties = lambda _: properties
    # The package itself imports what asks for a GPU.
    package = types.ModuleType("flash_attn")
    package.__path__ = list(find_spec("flash_attn").submodule_search_locations)
    sys.modules["flash_attn"] = package


def compile_attention(attention, head_size, dtype, causal):
    """Run forward and backward as far as their kernels start."""
    q, k, v, dq, dk, dv = (torch.zeros(1, 256, 4, head_size, dtype=dtype) for _ in range(6))
    options = (1.0, causal, -1, -1, 0.0, False)
    out, softmax, _, rng = attention.fwd(q, k, v, None, None, 0.0, *options)
    attention.bwd(q, q, k, v, out, softmax, dq, dk, dv, None, 0.0, *options, None, rng)


def target_of(code):
    """Return the processor that an ELF file names in its header: its machine, and its kind."""
    return int.from_bytes(code[18:20], "little"), code[48]


driver = CompileOnly()
stand_in_for_a_gpu(driver)
with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
    os.environ["TRITON_CACHE_DIR"] = folder
    from flash_attn.flash_attn_triton_amd import interface_v2 as attention

    for head_size, dtype in product((64, 128), (torch.float16, torch.bfloat16)):
        compile_attention(attention, head_size, dtype, causal=True)

if not driver.compiled:
    sys.exit("FlashAttention started no kernel")
for name, compiled in sorted(driver.compiled.items()):
    if {target_of(code) for code in compiled} != {GFX90A}:
        sys.exit(f"{name} was compiled for another processor than gfx90a")
    print(f"{name}: compiled {len(compiled)} times, {sum(map(len, compiled))} bytes")
