"""A stand-in for AMD's packages: the files that the layer rocm looks at, and no program."""

from __future__ import annotations

from pathlib import Path

from .stand_in_archive import Package

TRUE_TOOL = "#!/bin/sh\necho no GPU >&2\nexit 1\n"


def stand_in_rocm(version: str = "6.4.4", build: str = "129") -> dict[str, list[Package]]:
    """Return the packages of AMD's repositories for ROCm 6.4.4 that hold a ROCm of a version."""
    home = "opt/rocm-6.4.4"
    files: dict[str, str | Path] = {
        "opt/rocm": Path("rocm-6.4.4"),
        f"{home}/.info/version": f"{version}-{build}\n",
        f"{home}/bin/rocminfo": TRUE_TOOL,
        f"{home}/bin/rocm_agent_enumerator": TRUE_TOOL,
        f"{home}/lib/llvm/bin/amdgpu-arch": TRUE_TOOL,
    }
    full = f"{version}-{build}"
    library: dict[str, str | Path] = {f"{home}/lib/librccl.so.1": "a stand-in\n"}
    return {
        "rocm/apt/6.4.4": [
            Package("rocm-dev", files, full),
            Package("rocm-libs", {}, full, depends=f"rccl (= {full})"),
            Package("rccl", library, full),
        ],
        "amdgpu/6.4.4/ubuntu": [
            Package("libdrm-amdgpu-dev", {"opt/amdgpu/there": ""}, full),
            # Ubuntu's own.
            Package("libdw1t64", {}, full),
        ],
    }
