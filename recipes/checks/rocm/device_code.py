# /// check
# summary: every library and program of the image that carries code for GPUs carries it for gfx90a
# timeout_seconds: 300
# hint: build the layer again that installs it, with gfx90a among its targets (PYTORCH_ROCM_ARCH,
#   GPU_TARGETS, GPU_ARCHS)
# ///

import os
import re
import sys

from lumi_inside.checking import failed, note
from lumi_inside.elf.fatbin import codes
from lumi_inside.elf.reader import UnreadableError
from lumi_inside.image.files import walk

ARCHITECTURE = "gfx90a"
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


problems, carried, kernels = [], {}, {}
for one in walk():
    name = os.path.basename(one.path)
    if not one.is_file() or not one.size:
        continue
    if name.endswith(KERNELS) and NAMED.search(name):
        kernels.setdefault(os.path.dirname(one.path), set()).update(NAMED.findall(name))
    if not (one.mode & 0o111 or ".so" in name):
        continue
    found, wrong = of(one.path)
    if wrong:
        problems.append(f"the code for GPUs in {one.path} cannot be read: {wrong}")
    elif found:
        carried[one.path] = sorted(map(str, found))
        if not any(code.runs_on(ARCHITECTURE) for code in found):
            what = f"has code for {', '.join(carried[one.path])}, and none that {ARCHITECTURE} runs"
            problems.append(f"{one.path} {what}")
for folder, targets in kernels.items():
    if ARCHITECTURE not in targets:
        what = f"has kernels for {', '.join(sorted(targets))}, and none for {ARCHITECTURE}"
        problems.append(f"{folder} {what}")
note("carried", carried)
if problems:
    failed(*problems)
several = sorted({code for each in carried.values() for code in each})
print(f"{len(carried)} files carry code for {ARCHITECTURE}, of {', '.join(several) or 'none'}")
print(f"{len(kernels)} folders of kernels hold some for it")
sys.stdout.flush()
