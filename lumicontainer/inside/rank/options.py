"""The options of lumi-entry."""

from __future__ import annotations

from typing import NamedTuple

AUTO = "auto"
DIRECT = "direct"
LAUNCHERS = (AUTO, DIRECT, "torchrun", "accelerate", "deepspeed")
VISIBILITIES = ("hip", "rocr", "none")
PROFILERS = ("rocprofv3", "rocprof", "torch")


class Options(NamedTuple):
    """The value of each option, by default as without it. ``lumi-entry --help`` explains them."""

    launcher: str = AUTO
    nproc: int = 0
    launcher_args: str = ""
    print_env: bool = False
    json: bool = False
    gpu_visibility: str = "none"
    allow_gpu_sharing: bool = False
    no_bind: bool = False
    affinity_report: bool = False
    log_dir: str = ""
    profile: str = ""
    profiler: str = ""
    smi: bool = False
    preflight: bool = False
    remove_caches: bool = False
