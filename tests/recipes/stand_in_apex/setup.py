"""Stands in for Apex's: of version 1.9 its options say what is compiled, of 1.10 variables do.

requirements.txt is from 1.10, which has four more lines than 1.9.
"""

import os
import sys
from pathlib import Path

from op_builder.builder import cpu_arch
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension

VERSION = Path("version.txt").read_text()
COMPILED = {
    "apex_C": ("--cpp_ext", "APEX_BUILD_CPP_OPS"),
    "amp_C": ("--cuda_ext", "APEX_BUILD_CUDA_OPS"),
}

lazy = VERSION.startswith("1.10.")
modules = []
for module, (option, variable) in COMPILED.items():
    if option in sys.argv:
        sys.argv.remove(option)
        modules += [] if lazy else [module]
    if lazy:
        # The names that programs import, which compile in a job what is not there.
        Path(f"{module}.py").touch()
        modules += [f"apex.{module}"] if os.environ.get(variable) else []

setup(
    name="apex",
    version=VERSION,
    install_requires=Path("requirements.txt").read_text().splitlines(),
    packages=["apex"],
    py_modules=list(COMPILED) if lazy else [],
    ext_modules=[
        CUDAExtension(module, ["kernels.cu"], extra_compile_args=[cpu_arch()] if lazy else [])
        for module in modules
    ],
    cmdclass={"build_ext": BuildExtension},
)
