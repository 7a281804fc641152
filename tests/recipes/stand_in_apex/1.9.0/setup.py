"""Stands in for Apex 1.9's: its options say what is compiled."""

import sys

from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension

COMPILED = {"--cpp_ext": "apex_C", "--cuda_ext": "amp_C"}

asked = [option for option in COMPILED if option in sys.argv]
for option in asked:
    sys.argv.remove(option)

setup(
    name="apex",
    version="1.9.0",
    packages=["apex"],
    ext_modules=[CUDAExtension(COMPILED[option], ["kernels.cu"]) for option in asked],
    cmdclass={"build_ext": BuildExtension},
)
