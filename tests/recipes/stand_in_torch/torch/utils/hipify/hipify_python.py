"""Stands in for the translation: the files get the names that PyTorch 2.9 and 2.10 give them."""

import shutil
from pathlib import Path

NAMES = {
    "adapter_v2.cc": "adapter_v2_hip.cc",
    "cuda_util.cc": "hip_util.cc",
    "mpi_ops_v2.cc": "mpi_ops_v2_hip.cc",
    "ready_event.cc": "ready_event_hip.cc",
    "ready_event.h": "ready_event_hip.h",
}


def hipify(project_directory, output_directory, **options):
    for name, new in NAMES.items():
        if (Path(project_directory) / name).exists():
            shutil.copy(Path(project_directory) / name, Path(output_directory) / new)
