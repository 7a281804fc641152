"""An image for MI250X whose code is for other GPUs, on libraries that others have published.

The image is the one for a workstation with the checks of LUMI-G's: they need no GPU.
"""

import subprocess
from pathlib import Path

import pytest

from lumicontainer.inside.elf.fatbin import codes

from ..conftest import ROOT
from . import bundles
from .breaking import SITE, Broken, caught, holds
from .real import wheel_files

CODE = "image/device_code"
WAVE = "deepspeed/wave_size"
TRITON = "pytorch/triton_kernel"
GENERATOR = "_generator_api.cpython-311-x86_64-linux-gnu.so"
OP = f"{SITE}/deepspeed/ops/adam/fused_adam_op.cpython-311-x86_64-linux-gnu.so"
HEADER = ROOT / "recipes/layers/deepspeed/rocm/wave_size.h"


@pytest.fixture
def broken(tmp_path: Path) -> Broken:
    """Return an image with the checks of one for LUMI-G."""
    return Broken(tmp_path / "over").for_lumi()


def test_the_code_of_published_libraries_is_read(librccl: Path, cupy: Path) -> None:
    assert [str(each) for each in codes(str(librccl)) if each.runs_on("gfx90a")] == ["gfx90a"]
    assert len(codes(str(librccl))) == 10
    assert "gfx90a" in map(str, codes(str(cupy / GENERATOR)))


def test_published_libraries_for_gfx90a_hold(image: Path, broken: Broken, cupy: Path) -> None:
    broken.write(f"/opt/own/{GENERATOR}", (cupy / GENERATOR).read_bytes())
    row = broken.verify(image, CODE)
    holds(row)
    assert "gfx90a" in row["facts"]["carried"][f"/opt/own/{GENERATOR}"]


def test_code_for_other_gpus_is_named(image: Path, broken: Broken, cupy: Path) -> None:
    content = (cupy / GENERATOR).read_bytes().replace(b"amdhsa--gfx90a", b"amdhsa--gfx90c")
    broken.write(f"/opt/own/{GENERATOR}", content)
    upper = broken.folder / "upper/opt/own"
    bundles.library(upper / "libxnack.so", bundles.bundle("gfx90a:xnack+"))
    packed = bundles.compressed(bundles.bundle("gfx942"))
    bundles.library(upper / "libpacked.so", packed)
    bundles.library(upper / "libdamaged.so", b"no bundle at all")
    broken.write("/opt/rocm/lib/rocblas/library/Kernels.so-000-gfx942.hsaco", "a")
    row = broken.verify(image, CODE)
    caught(row, f"/opt/own/{GENERATOR} has code for", "gfx90c", "and none that gfx90a runs")
    caught(row, "/opt/own/libxnack.so has code for gfx90a:xnack+, and none that gfx90a runs")
    caught(row, "/opt/own/libpacked.so has code for gfx942")
    caught(row, "the code for GPUs in /opt/own/libdamaged.so cannot be read")
    caught(row, "/opt/rocm/lib/rocblas/library has kernels for gfx942, and none that gfx90a runs")


def test_only_what_the_image_needs_of_rocm_is_judged(image: Path, broken: Broken) -> None:
    rocm, wheel = "/opt/rocm-6.4.4/lib", f"{SITE}/torch/lib"
    missing = f"{rocm}/librocblas.so.4", f"{wheel}/librocsolver.so.0"
    excused = f"{rocm}/libhipsparselt.so.0", f"{wheel}/libhipsparselt.so", f"{rocm}/libother.so"
    code = bundles.bundle("gfx942", "gfx950")
    for path in (*missing, *excused):
        bundles.library(broken.place(path), code)
    for folder in ("hipsparselt", "hipblaslt"):
        broken.write(f"{rocm}/{folder}/library/TensileLibrary_gfx942.dat", "a")
    row = broken.verify(image, CODE)
    caught(row, *(f"{path} has code for gfx942, gfx950" for path in missing))
    caught(row, f"{rocm}/hipblaslt/library has kernels for gfx942")
    assert {*excused, f"{rocm}/hipsparselt/library"} == row["facts"]["excused"].keys()
    assert len(row["output"].splitlines()) == 3
    why = "for semi-structured sparsity alone (ROCm/hipSPARSELt"
    assert all(why in row["facts"]["excused"][path] for path in excused[:2])


def stand_in_op(path: Path, *flags: str) -> None:
    """Compile what stands in for an op of DeepSpeed's, as its layer has them compiled."""
    bundles.library(path, bundles.bundle("gfx90a"), flags=["-include", str(HEADER), *flags])


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["-DROCM_WAVEFRONT_SIZE=32"], "is compiled for a wave size of 32, and gfx90a has 64"),
        ([], "does not say for which wave size it is compiled"),
    ],
)
def test_an_op_for_another_wave_size_is_named(
    image: Path, broken: Broken, flags: list[str], words: str
) -> None:
    stand_in_op(broken.place(OP), *flags)
    caught(broken.verify(image, WAVE), OP, words)


def test_an_op_for_the_wave_size_of_gfx90a_holds(image: Path, broken: Broken) -> None:
    stand_in_op(broken.place(OP), "-DROCM_WAVEFRONT_SIZE=64")
    row = broken.verify(image, WAVE)
    holds(row)
    assert "1 ops with kernels" in row["output"]


@pytest.fixture
def triton(broken: Broken) -> Broken:
    """Add the wheel of Triton, whose compiler for AMD's GPUs needs none of them."""
    bind = f"{wheel_files('triton')}:/mnt"
    return broken.option("--bind", bind).env("PYTHONPATH", "/mnt")


def test_triton_compiles_a_kernel_for_gfx90a(image: Path, triton: Broken) -> None:
    holds(triton.verify(image, TRITON))


def test_a_triton_without_its_compiler_for_amd_is_named(image: Path, triton: Broken) -> None:
    row = triton.empty("/mnt/triton/backends/amd").verify(image, TRITON)
    caught(row, "Triton", "amd")


def test_a_hip_with_a_second_runtime_is_named(image: Path, broken: Broken, librccl: Path) -> None:
    own, bundled = "/usr/lib/x86_64-linux-gnu", f"{SITE}/torch/lib"
    for name in ("libamdhip64.so.6", "libhsa-runtime64.so.1"):
        command = ["gcc", "-shared", "-x", "c", "/dev/null", "-o", broken.place(f"{own}/{name}")]
        subprocess.run(command, check=True)
    broken.link(f"{bundled}/libamdhip64.so", f"{own}/libamdhip64.so.6")
    broken.write(f"{own}/librccl.so.1", "").option("--bind", f"{librccl}:{own}/librccl.so.1")
    broken.write(f"{bundled}/librccl.so", b"\x7fELF: the wheel's own")
    broken.link(f"{bundled}/libhsa-runtime64.so", "/opt/rocm/lib/libhsa-runtime64.so.1")
    files = ("__init__.py", "lib/libamdhip64.so", "lib/librccl.so", "lib/libhsa-runtime64.so")
    broken.write(record_of_torch(image), "".join(f"torch/{each},,\n" for each in files))
    row = broken.verify(image, "pytorch/bundled")
    caught(row, f"{bundled}/librccl.so of torch is another library than {own}/librccl.so.1")
    caught(
        row, "libhsa-runtime64.so of torch leads to /opt/rocm/lib/libhsa-runtime64.so.1: nothing"
    )
    assert "libamdhip64" not in row["reason"]


def record_of_torch(image: Path) -> str:
    """Return the path of the list of torch's files."""
    command = Broken(Path("/dev/null")).command(image, "sh", "-c", f"ls {SITE}/torch-*/RECORD")
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
