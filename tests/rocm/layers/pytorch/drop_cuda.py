"""Put stand-ins in the place of CUDA's libraries, so that PyTorch's wheel needs none of NVIDIA."""

import re
import subprocess
import sys
from pathlib import Path

LIBRARIES = Path(sys.argv[1]) / "torch/lib"
KEPT = ("c10", "shm", "torch", "torch_cpu", "torch_global_deps", "torch_python")
DROPPED = ("c10_cuda", "caffe2_nvrtc", "torch_cuda", "torch_cuda_linalg", "torch_nvshmem")
# What KEPT needs of NVIDIA, and what extensions for ROCm are linked with.
EMPTY = (
    *("c10_cuda.so", "cudart.so.12", "cudnn.so.9", "cufile.so.0", "cupti.so.12", "cusparseLt.so.0"),
    *("c10_hip.so", "torch_hip.so"),
)
# Each dropped function returns the address of zeros.
ASSEMBLER = """
.section .note.GNU-stack
.text
function: lea zeros(%rip), %rax
ret
.lcomm zeros, 4096
.data
"""
TYPE = '.balign 8\n{0}: .quad _ZTVN10__cxxabiv117__class_type_infoE+16, 9f\n9: .asciz "{1}"'


def symbols(names, which):
    """Return the type of each symbol of some libraries."""
    files = [LIBRARIES / f"lib{name}.so" for name in names]
    command = ["nm", "--dynamic", f"--{which}-only", *files]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rows = re.findall(r"^(?:[0-9a-f]+|\s+) (\w) ([^@\s]+)", listed, flags=re.MULTILINE)
    return {name: kind for kind, name in rows}


def missed():
    """Return the symbols of CUDA's libraries that the others of PyTorch need."""
    dropped, kept = symbols(DROPPED, "defined"), symbols(KEPT, "defined")
    # A weak function or variable is in every library that uses it.
    strong = {n for n, kind in dropped.items() if kind in "TDBR" or n.startswith(("_ZTI", "_ZTV"))}
    needed = symbols(KEPT, "undefined").keys() - kept.keys()
    return sorted(name for name in needed if name in strong or name.startswith(("cu", "__cuda")))


def assembled(name):
    """Return the definition of a symbol."""
    if name.startswith("_ZTI"):
        return TYPE.format(name, name[4:])
    if name.startswith("_ZTV"):
        return f".balign 8\n{name}: .fill 64, 8, 0"
    return f".type {name}, @function\n.set {name}, function"


def link(name, language, source):
    """Make a shared library of a source."""
    command = ["gcc", "-shared", "-x", language, "-", "-lstdc++", "-o", LIBRARIES / f"lib{name}"]
    subprocess.run(command, check=True, input=source, text=True)


functions = "".join(f".globl {name}\n{assembled(name)}\n" for name in missed())
for each in DROPPED:
    (LIBRARIES / f"lib{each}.so").unlink()
link("torch_cuda.so", "assembler", ASSEMBLER + functions)
for each in EMPTY:
    link(each, "c", "")
