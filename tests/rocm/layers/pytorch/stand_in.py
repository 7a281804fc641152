"""Change PyTorch's wheel for CUDA so that extensions compile as with its wheel for ROCm 6.4."""

import re
import shutil
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


def name_rocm():
    """Let PyTorch call itself a build for ROCm 6.4."""
    version = PACKAGE / "version.py"
    text = re.sub(r"\+cu\d+'", "+rocm6.4'", version.read_text())
    text = re.sub(r"(?m)^cuda\b.*$", "cuda = None", text)
    version.write_text(re.sub(r"(?m)^hip\b.*$", "hip = '6.4.43484'", text))
    with (PACKAGE / "cuda/__init__.py").open("a") as stream:
        stream.write(CUDA)


translate_headers()
name_rocm()
