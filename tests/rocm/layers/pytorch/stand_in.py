"""Change PyTorch's wheel for CUDA so that extensions compile as with its wheel for ROCm."""

import re
import shutil
import sys
import tempfile
from pathlib import Path

import torch
from torch.utils.hipify import hipify_python

PACKAGE = Path(torch.__file__).parent
# tools/amd_build/build_amd.py of PyTorch translates these, and more that the wheel does not hold.
FOLDERS = [
    *(f"aten/src/ATen/{each}cuda/*" for each in ("", "native/", "native/nested/")),
    *(f"aten/src/ATen/native/{each}/cuda/*" for each in ("quantized", "sparse", "transformers")),
    "aten/src/THC/*",
    "c10/cuda/*",
    "torch/*",
]
# torch.utils.cpp_extension asks the first; the others would call functions of the ROCm build.
CUDA = """

def _is_compiled():
    return True


def is_available():
    return False


def device_count():
    return 0
"""
# Apex 1.10 asks for the version of the wheel's RCCL. This is ROCm 6.4's.
RCCL = """

def version():
    return (2, 22, 3)
"""


def translate_headers():
    """Write HIP's headers beside CUDA's, as PyTorch does before it is built for ROCm."""
    # hipify knows the files by the paths of PyTorch's source tree.
    places = {"ATen": "aten/src/ATen", "THC": "aten/src/THC", "c10": "c10", "torch": "torch"}
    with tempfile.TemporaryDirectory() as tree:
        for ours, upstream in places.items():
            shutil.copytree(PACKAGE / "include" / ours, Path(tree) / upstream)
        hipify_python.hipify(
            project_directory=tree,
            output_directory=tree,
            includes=[f"{tree}/{folder}" for folder in FOLDERS],
            hip_clang_launch=True,
            show_progress=False,
        )
        for ours, upstream in {**places, "THH": "aten/src/THH"}.items():
            shutil.copytree(Path(tree) / upstream, PACKAGE / "include" / ours, dirs_exist_ok=True)


def name_rocm(hip):
    """Let PyTorch call itself a build for the ROCm of a version of HIP."""
    version = PACKAGE / "version.py"
    rocm = ".".join(hip.split(".")[:2])
    text = re.sub(r"\+cu\d+'", f"+rocm{rocm}'", version.read_text())
    text = re.sub(r"(?m)^cuda\b.*$", "cuda = None", text)
    version.write_text(re.sub(r"(?m)^hip\b.*$", f"hip = '{hip}'", text))
    for name, functions in (("__init__", CUDA), ("nccl", RCCL)):
        with (PACKAGE / f"cuda/{name}.py").open("a") as stream:
            stream.write(functions)


translate_headers()
name_rocm(sys.argv[1])
