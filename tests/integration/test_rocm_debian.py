"""HIP from Debian sid's ROCm 6.4, built for real for the platform rocm-debian, without a GPU.

`make rocm` builds all of the recipe rocm there; it needs upstream's sources.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from lumicontainer.inside.elf.fatbin import codes

from .conftest import ENGINE, lumicontainer, run

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


@dataclass(frozen=True)
class Built:
    """Hold an image."""

    image: Path

    def inside(self, *command: object, binds: Path | None = None) -> str:
        """Run a command in the image and return what it printed."""
        options = ["--bind", f"{binds}:/mnt"] if binds else []
        done = run([ENGINE, "--silent", "exec", "--userns", *options, self.image, *command])
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def rocm(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("rocm")
    (folder / "hip.yaml").write_text(RECIPE)
    words = ("--platform", "rocm-debian", "--set", "slingshot.provider=debian")
    done = lumicontainer("build", folder / "hip.yaml", *words, "--output", folder / "hip.sif")
    assert done.returncode == 0, done.stderr
    return Built(folder / "hip.sif")


def test_a_program_for_gfx90a_is_compiled_where_there_is_no_gpu(
    rocm: Built, tmp_path: Path
) -> None:
    (tmp_path / "twice.cpp").write_text(PROGRAM)
    words = ("--offload-arch=gfx90a", "/mnt/twice.cpp", "-o", "/mnt/twice")
    rocm.inside("hipcc", *words, binds=tmp_path)

    program = tmp_path / "twice"
    assert [str(code) for code in codes(str(program))] == ["gfx90a"]
    # MessagePack: the key, then the number 64.
    assert b".wavefront_size\x40" in program.read_bytes()


def test_the_programs_that_ask_for_gpus_are_debians_own(rocm: Built) -> None:
    assert rocm.inside("dpkg", "--verify", "rocminfo", "rocm-smi", "hipcc") == ""
    done = run([ENGINE, "--silent", "exec", "--userns", rocm.image, "rocminfo"])
    assert "gfx90a" not in done.stdout


def test_what_needs_a_gpu_or_slingshot_says_that_there_is_none(rocm: Built) -> None:
    printed = json.loads(
        rocm.inside("lumi-verify", "--json", "-", "-k", "computes", "-k", "slingshot/")
    )
    reasons = {row["name"]: row["reason"] for row in printed["checks"] if row["state"] == "skipped"}
    assert "no GPU" in reasons["rocm/computes"]
    assert "no network device of the kind cxi" in reasons["slingshot/slingshot"]


def test_lumi_entry_starts_a_program_in_it(rocm: Built) -> None:
    assert rocm.inside("lumi-entry", "--", "sh", "-c", "echo $RANK of $WORLD_SIZE") == "0 of 1\n"


def test_two_ranks_of_its_mpi_find_each_other(rocm: Built, tmp_path: Path) -> None:
    words = ("mpiexec", "-n", 2, "lumi-entry", "--", "sh", "-c", "echo $RANK of $WORLD_SIZE")
    assert sorted(rocm.inside(*words).splitlines()) == ["0 of 2", "1 of 2"]
