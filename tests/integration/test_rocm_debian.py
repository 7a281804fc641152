"""HIP from Debian sid's ROCm 6.4, built for real for the platform rocm-debian, without a GPU.

`make rocm` builds all of the recipe rocm there; it needs upstream's sources.
"""

import json
from pathlib import Path

import pytest

from lumicontainer.inside.elf.fatbin import codes

from .conftest import ENGINE, inside, lumicontainer, run

RECIPE = """\
summary: HIP and MPI
base: debian
profiles: [rocm-debian]
layers: [python, rocm, slingshot, mpich]
"""
PROGRAM = """\
#include <hip/hip_runtime.h>

__global__ void twice(int *numbers) { numbers[threadIdx.x] *= 2; }

int main() {
    twice<<<1, 64>>>(nullptr);
    return 0;
}
"""


@pytest.fixture(scope="module")
def rocm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rocm")
    (folder / "hip.yaml").write_text(RECIPE)
    words = ("--platform", "rocm-debian", "--set", "slingshot.provider=debian")
    lumicontainer("build", folder / "hip.yaml", *words, "--output", folder / "hip.sif", code=0)
    return folder / "hip.sif"


def test_a_program_for_gfx90a_is_compiled_without_a_gpu(rocm: Path, tmp_path: Path) -> None:
    (tmp_path / "twice.cpp").write_text(PROGRAM)
    words = ("hipcc", "--offload-arch=gfx90a", "/mnt/twice.cpp", "-o", "/mnt/twice")
    inside(rocm, *words, options=("--bind", f"{tmp_path}:/mnt"))
    program = tmp_path / "twice"
    assert [str(code) for code in codes(str(program))] == ["gfx90a"]
    # MessagePack: the key, then the number 64.
    assert b".wavefront_size\x40" in program.read_bytes()


def test_the_programs_that_ask_for_gpus_are_debians_own(rocm: Path) -> None:
    assert inside(rocm, "dpkg", "--verify", "rocminfo", "rocm-smi", "hipcc") == ""
    done = run([ENGINE, "--silent", "exec", "--userns", rocm, "rocminfo"])
    assert "gfx90a" not in done.stdout


def test_what_needs_a_gpu_or_slingshot_says_that_there_is_none(rocm: Path) -> None:
    words = ("lumi-verify", "--json", "-", "-k", "computes", "-k", "slingshot/")
    printed = json.loads(inside(rocm, *words))
    reasons = {row["name"]: row["reason"] for row in printed["checks"] if row["state"] == "skipped"}
    assert "no GPU" in reasons["rocm/computes"]
    assert "no network device of the kind cxi" in reasons["slingshot/slingshot"]


def test_two_ranks_of_its_mpi_find_each_other(rocm: Path) -> None:
    words = ("mpiexec", "-n", 2, "lumi-entry", "--", "sh", "-c", "echo $RANK of $WORLD_SIZE")
    assert sorted(inside(rocm, *words).splitlines()) == ["0 of 2", "1 of 2"]
