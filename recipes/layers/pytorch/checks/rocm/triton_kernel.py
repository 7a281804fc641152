# /// check
# summary: Triton compiles a kernel for gfx90a, without asking for a GPU
# timeout_seconds: 120
# hint: rebuild the layer pytorch; the version of Triton is the one that its wheel of
#   PyTorch names
# ///

import os
import re
import sys
import tempfile

from lumi_inside.checking import failed

try:
    import triton
    import triton.language as tl
    from triton.backends.compiler import GPUTarget
except Exception as error:  # noqa: BLE001 - it looks for its compilers as it is imported
    sys.exit(f"Triton cannot be imported: {error}")

ARCHITECTURE, WAVE = "gfx90a", 64
MAGIC = b"\x7fELF"
GFX90A = 0x3F
"""In the lowest byte of an ELF file's flags (LLVM, User Guide for AMDGPU: EF_AMDGPU_MACH)."""

# The compiled kernel must not come from a cache, nor stay in one.
cache = tempfile.TemporaryDirectory()
os.environ["TRITON_CACHE_DIR"] = cache.name


@triton.jit
def add(left, right, into, number, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    here = at < number
    tl.store(into + at, tl.load(left + at, mask=here) + tl.load(right + at, mask=here), mask=here)


SIGNATURE = {
    "left": "*fp32",
    "right": "*fp32",
    "into": "*fp32",
    "number": "i32",
    "block": "constexpr",
}
source = triton.compiler.ASTSource(add, signature=SIGNATURE, constexprs={"block": 256})
try:
    asm = triton.compile(source, target=GPUTarget("hip", ARCHITECTURE, WAVE)).asm
except Exception as error:  # noqa: BLE001 - whatever its compiler raises
    sys.exit(f"Triton {triton.__version__} compiles no kernel for {ARCHITECTURE}: {error}")
code = asm.get("hsaco", b"")
if code[:4] != MAGIC or code[48] != GFX90A:
    failed(f"Triton {triton.__version__} made something other than code for {ARCHITECTURE}")
if not re.search(rf"\.wavefront_size: +{WAVE}\b", asm["amdgcn"]):
    failed(f"Triton {triton.__version__} made code for another wave size than {WAVE}")
print(f"Triton {triton.__version__} made {len(code)} bytes of code for {ARCHITECTURE}")
