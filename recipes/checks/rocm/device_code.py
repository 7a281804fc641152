# /// check
# summary: every library that the image needs on its GPUs has code for gfx90a
# timeout_seconds: 300
# reads: [/*.co, /*.hsaco, /*.dat, /*.kdb, /*.model]
# hint: build the layer again that installs it, with gfx90a among its targets (PYTORCH_ROCM_ARCH,
#   GPU_TARGETS, GPU_ARCHS)
# ///

import os
import re
import sys
from fnmatch import fnmatch

from lumi_inside.checking import failed, note, note_undeclared
from lumi_inside.elf.fatbin import codes
from lumi_inside.elf.reader import UnreadableError
from lumi_inside.image.walk import may_be_loaded, walk

ARCHITECTURE = "gfx90a"
OF_ROCM = "/opt/rocm*"
NEEDED = (
    "librccl*",
    "librocblas*",
    "libhipblaslt*",
    "libMIOpen*",
    "rocblas",
    "hipblaslt",
    "miopen",
)
"""The libraries of ROCm that PyTorch computes with, and the folders of their kernels."""
EXEMPT = {
    "hipsparselt": (
        "made for gfx942 and gfx950 only; PyTorch calls it for semi-structured sparsity alone",
        "ROCm/hipSPARSELt, CHANGELOG.md; PyTorch, cuSPARSELtOps.cpp (isSupportedHipSparseLtArch)",
    ),
}
"""Part of a path, and why and by which source what lies there carries no code for gfx90a."""
MAGIC = b"\x7fELF"
NAMED = re.compile(r"gfx[0-9a-f]{3,4}(?![0-9a-f])")
KERNELS = (".co", ".hsaco", ".dat", ".kdb", ".model")
"""Files of the mathematical libraries with code or tables for the one GPU that their names name."""
OTHER = ("another processor", "no ELF file")


def of(path):
    """Return for what a file carries code, and in words what is wrong with it."""
    try:
        with open(path, "rb", buffering=0) as stream:
            if stream.read(len(MAGIC)) != MAGIC:
                return (), ""
        return codes(path), ""
    except PermissionError:  # root's alone, and this is another user
        return (), ""
    except UnreadableError as error:
        return (), "" if any(words in str(error) for words in OTHER) else str(error)


def excuse(path):
    """Return why a file or folder needs no code for these GPUs; empty if it needs some."""
    for part, (reason, source) in EXEMPT.items():
        if part in path:
            return f"{reason} ({source})"
    parts = path.split("/")
    if fnmatch(path, OF_ROCM) and not any(fnmatch(each, name) for each in parts for name in NEEDED):
        return "a library of ROCm that PyTorch does not compute with"
    return ""


problems, carried, excused, kernels = [], {}, {}, {}


def judge(path, targets, what):
    """Sort a path by what it carries code for."""
    reason = excuse(path)
    text = f"{what} for {', '.join(targets)}, and none that {ARCHITECTURE} runs"
    if reason:
        excused[path] = f"{text}: {reason}"
    else:
        problems.append(f"{path} {text}")


for one in walk():
    name = os.path.basename(one.path)
    if not one.is_file() or not one.size:
        continue
    if name.endswith(KERNELS) and NAMED.search(name):
        kernels.setdefault(os.path.dirname(one.path), set()).update(NAMED.findall(name))
    if not may_be_loaded(one):
        continue
    found, wrong = of(one.path)
    if wrong:
        problems.append(f"the code for GPUs in {one.path} cannot be read: {wrong}")
    elif found:
        carried[one.path] = sorted(map(str, found))
        if not any(code.runs_on(ARCHITECTURE) for code in found):
            judge(one.path, carried[one.path], "has code")
for folder, targets in kernels.items():
    if ARCHITECTURE not in targets:
        judge(folder, sorted(targets), "has kernels")
note("carried", carried)
note("excused", excused)
note_undeclared([])
if problems:
    failed(*problems)
several = sorted({code for each in carried.values() for code in each})
print(f"{len(carried)} files carry code for GPUs, of {', '.join(several) or 'none'}")
print(f"{len(kernels)} folders hold kernels, {len(excused)} files and folders are excused:")
for path, reason in sorted(excused.items()):
    print(f"{path} {reason}")
sys.stdout.flush()
