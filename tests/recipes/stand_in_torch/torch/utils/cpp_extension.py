"""Stands in for PyTorch's builder of extensions: it records what it would compile."""

import json
import os
from pathlib import Path

from setuptools import Extension
from setuptools.command.build_ext import build_ext

ROCM_HOME, CUDA_HOME = "/opt/rocm", None
COMMON_HIPCC_FLAGS = ["-D__HIP_PLATFORM_AMD__=1", "-DUSE_ROCM=1"]
HERE = Path(__file__).resolve().parents[1]


def CUDAExtension(name, sources, **options):  # noqa: N802 - PyTorch's name
    extension = Extension(name, list(sources), include_dirs=options.get("include_dirs", []))
    extension.include_dirs = [
        *extension.include_dirs,
        str(HERE / "include"),
        f"{ROCM_HOME}/include",
    ]
    extension.library_dirs = [str(HERE / "lib"), f"{ROCM_HOME}/lib"]
    extension.libraries = ["c10", "torch", "torch_cpu", "torch_python", "amdhip64", "c10_hip"]
    extension.flags = options.get("extra_compile_args", {})
    return extension


def CppExtension(name, sources, **options):  # noqa: N802 - PyTorch's name
    raise RuntimeError("this torch is for ROCm, and its extensions are CUDAExtension")


class BuildExtension(build_ext):
    @classmethod
    def with_options(cls, **options):
        del options
        return cls

    def build_extension(self, extension):
        record = Path(os.environ["STAND_IN_RECORD"]) / f"{extension.name}.json"
        seen = {
            "sources": extension.sources,
            "flags": extension.flags,
            "environment": dict(os.environ),
        }
        record.write_text(json.dumps(seen))
        path = Path(self.get_ext_fullpath(extension.name))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
