# /// check
# summary: PyTorch uses the image's RCCL and HIP, there is no second one of either, and amdsmi is
#   found
# hint: "rebuild the layer pytorch: it replaces the wheel's RCCL by the image's"
# ///

import importlib
import os
import sys
from pathlib import Path

from lumi_inside.checking import memory_map

ROCM = Path(os.environ.get("ROCM_PATH", "/opt/rocm"))
IMAGE = (ROCM / "lib").resolve()
ONCE = ("librccl.so", "libamdhip64.so", "libhsa-runtime64.so")

# MPI first, if it is here: it loads the image's HIP before torch asks for one by another name.
try:
    mpi4py = importlib.import_module("mpi4py")
except ImportError:
    print("mpi4py is not in the image")
else:
    mpi4py.rc.initialize = False
    importlib.import_module("mpi4py.MPI")
importlib.import_module("torch")

mapped = {Path(line.split(maxsplit=5)[-1]) for line in memory_map().splitlines() if ".so" in line}
for library in ONCE:
    loaded = sorted(path for path in mapped if path.name.startswith(library))
    print(f"{library}:", *loaded)
    if len(loaded) != 1:
        sys.exit(f"{library} is loaded {len(loaded)} times, and has to be loaded once")
    if not loaded[0].resolve().is_relative_to(IMAGE):
        sys.exit(f"{library} is torch's own, not the image's, which lies in {IMAGE}")

if any(IMAGE.glob("libamd_smi.so*")):
    try:
        print("amdsmi:", importlib.import_module("amdsmi").__file__)
    # Without its library it raises KeyError, with an older one AttributeError.
    except (AttributeError, ImportError, KeyError, OSError) as error:
        sys.exit(f"torch.cuda.utilization() would fail: amdsmi cannot be imported: {error!r}")
