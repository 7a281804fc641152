"""An image in which a layer is not what its recipe says: each quick check of the layers fails."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from .breaking import HOME, NO_OPTIONS, SITE, Broken, caught, read


def other_mpi4py(image: Broken, library: str) -> Broken:
    """Let programs find an mpi4py that loads no library, and says it is of another one."""
    image.write("/opt/other/mpi4py/__init__.py", "")
    text = f"def Get_library_version():\n    return {library!r}\n"
    return image.write("/opt/other/mpi4py/MPI.py", text).env("PYTHONPATH", "/opt/other")


FAULTS: dict[str, tuple[Callable[[Broken], Broken], str, str]] = {
    "the system's Python stands first": (
        lambda image: image.env("PATH", "/usr/local/bin:/usr/bin:/bin:/opt/venv/bin"),
        "python/environment",
        "python3 on PATH is /usr/bin/python3",
    ),
    "packages that do not accept each other": (
        lambda image: image.write(
            f"{SITE}/einops-0.8.2.dist-info/METADATA",
            "Metadata-Version: 2.1\nName: einops\nVersion: 0.8.2\nRequires-Dist: torch<2\n",
        ),
        "python/environment",
        "einops 0.8.2 has requirement torch<2",
    ),
    "a libfabric without the provider for any machine": (
        lambda image: image.write("/usr/bin/fi_info", "#!/bin/sh\necho psm2:\n", 0o755),
        "libfabric/providers",
        "fi_info lists no tcp provider",
    ),
    "an mpiexec whose ranks do not meet": (
        lambda image: image.write(
            "/opt/venv/bin/mpiexec", f'#!/bin/sh\n{NO_OPTIONS}"$@"\nexec "$@"\n', 0o755
        ),
        "mpich/two_ranks",
        "two ranks of MPICH did not find each other",
    ),
    "no compiler for MPI": (
        lambda image: image.write("/opt/venv/bin/mpicc", "#!/bin/sh\nexit 1\n", 0o755),
        "mpich/two_ranks",
        "it gives no reason",
    ),
    "an mpi4py for another MPI": (
        lambda image: other_mpi4py(image, "Open MPI v4.1.4"),
        "mpi4py/mpi",
        "another library than MPICH: Open MPI",
    ),
    "an mpi4py with an MPI of its own": (
        lambda image: other_mpi4py(image, "MPICH Version: 4.0"),
        "mpi4py/mpi",
        "has an MPI of its own",
    ),
    "CUDA's packages": (
        lambda image: image.write(
            f"{SITE}/nvidia_nccl_cu12-2.27.dist-info/METADATA",
            "Metadata-Version: 2.1\nName: nvidia-nccl-cu12\nVersion: 2.27\n",
        ),
        "pytorch/accelerator",
        "CUDA packages are installed: nvidia-nccl-cu12",
    ),
    "an op of DeepSpeed's that is not there": (
        lambda image: image.write(
            f"{SITE}/deepspeed/ops/adam/cpu_adam_op.cpython-311-x86_64-linux-gnu.so", ""
        ),
        "deepspeed/ops",
        "DS_BUILD_CPU_ADAM is compiled in, but its op cannot be loaded",
    ),
    "a Horovod whose extension is damaged": (
        lambda image: image.write(
            f"{SITE}/horovod/torch/mpi_lib_v2.cpython-311-x86_64-linux-gnu.so", b"\x7fELF"
        ),
        "horovod/mpi",
        "Horovod's PyTorch extension cannot be loaded",
    ),
    "a data set that is not shipped": (
        lambda image: image.empty(f"{SITE}/sklearn/datasets/data"),
        "training-packages/digits",
        "digits.csv.gz",
    ),
    "a trainer that does not take this PyTorch": (
        lambda image: image.write(
            f"{SITE}/lightning/__init__.py", "raise ImportError('torch is too new')\n"
        ),
        "training-packages/trainers",
        "torch is too new",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_layer_that_is_not_what_it_says_is_reported(
    image: Path, broken: Broken, fault: str
) -> None:
    change, check, words = FAULTS[fault]
    row = change(broken).verify(image, check)
    assert row["state"] in ("failed", "error"), row
    assert words in row["reason"], row["reason"]


@pytest.mark.parametrize(
    ("flag", "value", "words"),
    [
        ("DS_BUILD_QUANTIZER", True, "set in the recipe, but not compiled in: DS_BUILD_QUANTIZER"),
        ("DS_BUILD_SHM_COMM", False, "compiled in, but not set in the recipe: DS_BUILD_SHM_COMM"),
    ],
)
def test_a_flag_that_the_image_was_not_built_with_is_named(
    image: Path, broken: Broken, flag: str, value: bool, words: str
) -> None:
    record = json.loads(read(image, f"/{HOME}/resolved.json"))
    record["layers"]["deepspeed"]["parameters"][flag] = value
    row = broken.write(f"/{HOME}/resolved.json", json.dumps(record)).verify(image, "deepspeed/ops")
    caught(row, words)


def test_a_pytorch_for_another_accelerator_is_named(image: Path, broken: Broken) -> None:
    record = json.loads(read(image, f"/{HOME}/resolved.json"))
    record["platform"]["accelerator"] = "rocm"
    broken.write(f"/{HOME}/resolved.json", json.dumps(record))
    row = broken.verify(image, "pytorch/accelerator")
    caught(row, "torch is built for cpu, and the image is for rocm")
