# /// check
# summary: Apex's fused optimizers are there with their kernels
# hint: rebuild the layer apex; its log says why the kernels were left out
# ///

import importlib
import sys
from importlib.metadata import version
from importlib.util import find_spec


def compiled(name):
    """Return whether a module is a compiled one."""
    spec = find_spec(name)
    return spec is not None and (spec.origin or "").endswith(".so")


print("apex", version("apex"))
importlib.import_module("torch")
# Since 1.10 the kernels are modules of the package apex. A module amp_C in Python is there as well,
# which compiles those that are missing in each job (ROCm/apex pull request 296).
kernels = next(filter(compiled, ("amp_C", "apex.amp_C")), None)
if kernels is None:
    sys.exit("Apex is installed without its kernels: neither amp_C nor apex.amp_C is compiled")
try:
    importlib.import_module(kernels)
except ImportError as error:
    sys.exit(f"Apex's kernels cannot be loaded: {error}")
importlib.import_module("apex.optimizers").FusedAdam  # noqa: B018 - found only when it is asked for
