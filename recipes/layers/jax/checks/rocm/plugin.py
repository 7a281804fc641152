# /// check
# summary: JAX's plugin for ROCm has jaxlib's version, and finds the libraries that it needs
# timeout_seconds: 120
# hint: build the layer jax on the ROCm that its plugin is made for, by --profile rocm-7.0.2
# ///

import ctypes
import os
from importlib.metadata import distribution, version

from lumi_inside.checking import failed

PJRT, EXTENSIONS = "jax-rocm7-pjrt", "jax-rocm7-plugin"
START = "GetPjrtApi"
"""The function by which JAX reaches the plugin (XLA, pjrt_c_api.h)."""

versions = {name: version(name) for name in ("jax", "jaxlib", PJRT, EXTENSIONS)}
if len(set(versions.values())) > 1:
    failed("versions differ: " + ", ".join(f"{name} {each}" for name, each in versions.items()))
problems, starts = [], False
for name in (PJRT, EXTENSIONS):
    package = distribution(name)
    for each in package.files or ():
        if each.suffix != ".so":
            continue
        try:
            library = ctypes.CDLL(os.fspath(package.locate_file(each)), os.RTLD_LAZY)
        except OSError as error:
            problems.append(f"{each} cannot be loaded: {error}")
        else:
            starts = starts or hasattr(library, START)
if not problems and not starts:
    problems.append(f"no library of {PJRT} has the function {START}")
if problems:
    failed(*problems)
print(f"JAX {versions['jax']}: its plugin and its extensions for ROCm load")
