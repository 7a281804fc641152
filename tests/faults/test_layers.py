"""An image in which a layer is not what its recipe says: each quick check of the layers fails."""

from pathlib import Path

import pytest

from .breaking import NO_OPTIONS, SITE, Broken, Change, caught, reports

OTHER_ROW = """\
import datasets
__version__ = "0"
datasets.Dataset.__getitem__ = lambda *_: {"text": "other"}
"""
OTHER_PRODUCT = """\
import bitsandbytes
real = bitsandbytes.nn.Linear4bit.forward
bitsandbytes.nn.Linear4bit.forward = lambda self, rows: 1.01 * real(self, rows)
"""
OTHER_WEIGHTS = """\
import bitsandbytes.functional
real = bitsandbytes.functional.dequantize_4bit
bitsandbytes.functional.dequantize_4bit = lambda *given: real(*given).roll(1)
"""
SUFFIX = "cpython-311-x86_64-linux-gnu.so"


def other_mpi4py(image: Broken, library: str) -> Broken:
    """Let programs find an mpi4py that loads no library, and says it is of another one."""
    image.write("/opt/other/mpi4py/__init__.py", "")
    text = f"def Get_library_version():\n    return {library!r}\n"
    return image.write("/opt/other/mpi4py/MPI.py", text).env("PYTHONPATH", "/opt/other")


def other_bitsandbytes(image: Broken, code: str) -> Broken:
    """Let Python change bitsandbytes before a check begins."""
    return image.write("/opt/other/sitecustomize.py", code).env("PYTHONPATH", "/opt/other")


def program(image: Broken, path: str, script: str) -> Broken:
    return image.write(path, f"#!/bin/sh\n{script}\n", 0o755)


FAULTS: list[tuple[str, str, Change]] = [
    ("python/environment", "python3 on PATH is /usr/bin/python3",
     lambda image: image.env("PATH", "/usr/local/bin:/usr/bin:/bin:/opt/venv/bin")),
    ("python/environment", "einops 0.8.2 has requirement torch<2",
     lambda image: image.package("einops", "0.8.2", "Requires-Dist: torch<2")),
    ("libfabric/providers", "fi_info lists no tcp provider",
     lambda image: program(image, "/usr/bin/fi_info", "echo psm2:")),
    ("mpich/two_ranks", "two ranks of MPICH did not find each other",
     lambda image: program(image, "/opt/venv/bin/mpiexec", f'{NO_OPTIONS}"$@"\nexec "$@"')),
    ("mpich/two_ranks", "it gives no reason",
     lambda image: program(image, "/opt/venv/bin/mpicc", "exit 1")),
    ("mpi4py/mpi", "another library than MPICH: Open MPI",
     lambda image: other_mpi4py(image, "Open MPI v4.1.4")),
    ("mpi4py/mpi", "has its own MPI",
     lambda image: other_mpi4py(image, "MPICH Version: 4.0")),
    ("pytorch/accelerator", "CUDA packages are installed: nvidia-nccl-cu12",
     lambda image: image.package("nvidia-nccl-cu12", "2.27")),
    ("deepspeed/ops", "DS_BUILD_CPU_ADAM is compiled in, but its op cannot be loaded",
     lambda image: image.write(f"{SITE}/deepspeed/ops/adam/cpu_adam_op.{SUFFIX}", "")),
    ("horovod/mpi", "Horovod's PyTorch extension cannot be loaded",
     lambda image: image.write(f"{SITE}/horovod/torch/mpi_lib_v2.{SUFFIX}", b"\x7fELF")),
    ("training-packages/digits", "digits.csv.gz",
     lambda image: image.empty(f"{SITE}/sklearn/datasets/data")),
    ("training-packages/trainers", "torch is too new", lambda image: image.write(
        f"{SITE}/lightning/__init__.py", "raise ImportError('torch is too new')\n")),
    ("training-packages/language_models", "No module named 'peft.other'",
     lambda image: image.write(f"{SITE}/peft/__init__.py", "import peft.other\n")),
    ("training-packages/language_models", "datasets gives another row", lambda image: image.write(
        f"{SITE}/trl/__init__.py", OTHER_ROW)),
    ("bitsandbytes/qlora", "apart from PyTorch's with the same weights",
     lambda image: other_bitsandbytes(image, OTHER_PRODUCT)),
    ("bitsandbytes/qlora", "of their block's largest number apart",
     lambda image: other_bitsandbytes(image, OTHER_WEIGHTS)),
]  # fmt: skip


@pytest.mark.parametrize(("check", "words", "change"), FAULTS)
def test_a_layer_that_is_not_what_it_says_is_reported(
    image: Path, broken: Broken, check: str, words: str, change: Change
) -> None:
    reports(change(broken).verify(image, check), words)


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
    with broken.record(image) as record:
        record["layers"]["deepspeed"]["parameters"][flag] = value
    caught(broken.verify(image, "deepspeed/ops"), words)


def test_a_pytorch_for_another_accelerator_is_named(image: Path, broken: Broken) -> None:
    with broken.record(image) as record:
        record["platform"]["accelerator"] = "rocm"
    row = broken.verify(image, "pytorch/accelerator")
    caught(row, "torch is built for cpu, and the image is for rocm")
