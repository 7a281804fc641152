"""Stands in for Apex 1.10's: variables say what is compiled, and its options are passed over."""

import os
import sys

from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension

COMPILED = {"APEX_BUILD_CPP_OPS": "apex_C", "APEX_BUILD_CUDA_OPS": "amp_C"}

for option in ("--cpp_ext", "--cuda_ext"):
    if option in sys.argv:
        sys.argv.remove(option)

setup(
    name="apex",
    version="1.10.0",
    packages=["apex"],
    # The names that programs import, which compile what is not there.
    py_modules=list(COMPILED.values()),
    ext_modules=[
        CUDAExtension(f"apex.{module}", ["kernels.cu"])
        for variable, module in COMPILED.items()
        if os.environ.get(variable)
    ],
    cmdclass={"build_ext": BuildExtension},
)
