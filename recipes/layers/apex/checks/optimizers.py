# /// check
# proves: Apex's fused optimizers are there with their kernels
# mend: build the layer apex again; its log tells why the kernels were left out
# ///

import importlib
import sys
from importlib.metadata import version

print("apex", version("apex"))
importlib.import_module("torch")
try:
    importlib.import_module("amp_C")
except ImportError as error:
    sys.exit(f"Apex is installed without its kernels: {error}")
importlib.import_module("apex.optimizers").FusedAdam  # noqa: B018 - found only when it is asked for
