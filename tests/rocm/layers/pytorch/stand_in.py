"""Change PyTorch's wheel for the CPU so that extensions compile as with its wheel for ROCm 6.4."""

import re
from pathlib import Path

import torch
from torch.utils.hipify import hipify_python

PACKAGE = Path(torch.__file__).parent
# tools/amd_build/build_amd.py of PyTorch translates these, and more that the wheel does not hold.
FOLDERS = [
    *(f"ATen/{each}cuda/*" for each in ("", "native/", "native/nested/", "native/quantized/")),
    *(f"ATen/native/{each}/cuda/*" for each in ("sparse", "transformers")),
    "c10/cuda/*",
    "torch/*",
]
# CMake writes it when PyTorch is built for ROCm.
MACROS = "#pragma once\n#define C10_CUDA_BUILD_SHARED_LIBS\n"
# torch.utils.cpp_extension asks the first; the others would call functions of the ROCm build.
CUDA = """

def _is_compiled():
    return True


def is_available():
    return False


def device_count():
    return 0
"""


def translate_headers():
    """Write HIP's headers beside CUDA's, as PyTorch does before it is built for ROCm."""
    include = str(PACKAGE / "include")
    hipify_python.hipify(
        project_directory=include,
        output_directory=include,
        includes=[f"{include}/{folder}" for folder in FOLDERS],
        hip_clang_launch=True,
        show_progress=False,
    )
    (PACKAGE / "include/c10/hip/impl/hip_cmake_macros.h").write_text(MACROS)


def name_rocm():
    """Let PyTorch call itself a build for ROCm 6.4."""
    version = PACKAGE / "version.py"
    text = version.read_text().replace("+cpu'", "+rocm6.4'")
    version.write_text(re.sub(r"(?m)^hip\b.*$", "hip = '6.4.43484'", text))
    with (PACKAGE / "cuda/__init__.py").open("a") as stream:
        stream.write(CUDA)


translate_headers()
name_rocm()
