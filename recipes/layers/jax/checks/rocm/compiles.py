# /// check
# summary: XLA compiles a step of training for gfx90a, without asking for a GPU
# timeout_seconds: 300
# hint: read XLA's own message above; lumi-verify -k jax/plugin says whether its plugin loads
# ///

import os
import sys

# XLA chooses kernels by trying them on a GPU; without one it takes hipBLAS's products.
os.environ["XLA_FLAGS"] = "--xla_gpu_autotune_level=0 --xla_gpu_enable_triton_gemm=false"
# JAX begins on the CPU, and compiles for a GPU that is described only.
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
from jax.experimental import topologies
from jax.sharding import NamedSharding, PartitionSpec
from lumi_inside.checking import failed

# A GCD of an MI250X (AMD, CDNA 2 white paper; XLA, GpuDeviceInfoProto).
MI250X = """
platform_name: "ROCM"
device_description_str: "AMD Instinct MI250X"
dnn_version_info { major: 3 }
gpu_device_info {
  rocm_compute_capability { gcn_arch_name: "gfx90a:sramecc+:xnack-" }
  core_count: 110 fpus_per_core: 128 threads_per_warp: 64
  threads_per_block_limit: 1024 threads_per_core_limit: 2048
  registers_per_block_limit: 65536 registers_per_core_limit: 65536
  shared_memory_per_block: 65536 shared_memory_per_block_optin: 65536 shared_memory_per_core: 65536
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65536 block_dim_limit_z: 65536
  clock_rate_ghz: 1.7 memory_bandwidth: 1638400000000
  l2_cache_size: 8388608 device_memory_size: 68702699520
}
"""
MAGIC = b"\x7fELF"
GFX90A = (224, 0x3F)
"""An ELF file's machine, and the lowest byte of its flags (LLVM, User Guide for AMDGPU)."""


def targets(executable):
    """Yield the target of each ELF file in an executable of XLA."""
    begin = executable.find(MAGIC)
    while begin >= 0:
        header = executable[begin : begin + 64]
        yield int.from_bytes(header[18:20], "little"), header[48]
        begin = executable.find(MAGIC, begin + len(MAGIC))


def step(weights, rows):
    return weights - jax.grad(lambda each: jnp.tanh(rows @ each).sum())(weights)


jax.devices()  # JAX registers its plugins here
try:
    gpu = topologies.get_topology_desc("mi250x", "rocm", target_config=MI250X, topology="1x1x1")
except Exception as error:  # noqa: BLE001 - the plugin's errors have no common class
    sys.exit(f"JAX's plugin does not describe a GPU for gfx90a: {error}")
sharding = NamedSharding(topologies.make_mesh(gpu, (1,), ("x",)), PartitionSpec())
shape = jax.ShapeDtypeStruct((256, 256), jnp.float32)
jitted = jax.jit(step, in_shardings=(sharding, sharding))
compiled = jitted.trace(shape, shape).lower(lowering_platforms=("rocm",)).compile()
executable = compiled.runtime_executable().serialize()
if set(targets(executable)) != {GFX90A}:
    failed(f"the compiled step has code for {list(targets(executable))}, not for gfx90a alone")
print(f"compiled a step of {len(executable)} bytes for gfx90a")
