"""The recipe rocm, built for real for the platform rocm-debian: Debian's ROCm, and no GPU."""

import json
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from .conftest import ENGINE, lumicontainer, run

PROGRAM = """\
#include <hip/hip_runtime.h>

__global__ void twice(int *numbers) { numbers[threadIdx.x] *= 2; }

int main() {
    twice<<<1, 64>>>(nullptr);
    return 0;
}
"""
BUNDLE = b"__CLANG_OFFLOAD_BUNDLE__"
AMDGPU, GFX90A = 224, 0x3F
"""In the ELF of a code object: its machine, and the processor in its flags (LLVM, AMDGPUUsage)."""


@dataclass(frozen=True)
class Built:
    """Hold an image, and what its build said."""

    image: Path
    said: str

    def inside(self, *command: object, binds: Path | None = None) -> str:
        """Run a command in the image and return what it printed."""
        options = ["--bind", f"{binds}:/mnt"] if binds else []
        done = run([ENGINE, "--silent", "exec", "--userns", *options, self.image, *command])
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def rocm(tmp_path_factory: pytest.TempPathFactory) -> Built:
    image = tmp_path_factory.mktemp("rocm") / "rocm.sif"
    done = lumicontainer("build", "rocm", "--platform", "rocm-debian", "--output", image)
    assert done.returncode == 0, done.stderr
    return Built(image, done.stderr)


def section(program: bytes, wanted: bytes) -> bytes:
    """Return a section of an ELF of 64 bits."""
    (offset,) = struct.unpack_from("<Q", program, 40)
    size, count, names = struct.unpack_from("<HHH", program, 58)
    headers = [struct.unpack_from("<IIQQQQ", program, offset + n * size) for n in range(count)]
    _, _, _, _, start, length = headers[names]
    strings = program[start : start + length]
    for name, _, _, _, start, length in headers:
        if strings[name:].split(b"\0", 1)[0] == wanted:
            return program[start : start + length]
    raise AssertionError(f"there is no section {wanted!r}")


def bundled(fatbin: bytes) -> dict[str, bytes]:
    """Return the code objects of a bundle by their targets."""
    assert fatbin.startswith(BUNDLE)
    (count,) = struct.unpack_from("<Q", fatbin, len(BUNDLE))
    found, at = {}, len(BUNDLE) + 8
    for _ in range(count):
        start, size, length = struct.unpack_from("<QQQ", fatbin, at)
        at += 24 + length
        found[fatbin[at - length : at].decode()] = fatbin[start : start + size]
    return found


def test_a_program_for_gfx90a_is_compiled_where_there_is_no_gpu(
    rocm: Built, tmp_path: Path
) -> None:
    (tmp_path / "twice.cpp").write_text(PROGRAM)
    words = ("--offload-arch=gfx90a", "/mnt/twice.cpp", "-o", "/mnt/twice")
    rocm.inside("hipcc", *words, binds=tmp_path)

    codes = bundled(section((tmp_path / "twice").read_bytes(), b".hip_fatbin"))
    targets = [target for target in codes if "amdgcn" in target]
    assert [target.rpartition("--")[2] for target in targets] == ["gfx90a"]
    code = codes[targets[0]]
    (machine,) = struct.unpack_from("<H", code, 18)
    (flags,) = struct.unpack_from("<I", code, 48)
    assert (code[:4], machine, flags & 0xFF) == (b"\x7fELF", AMDGPU, GFX90A)
    # MessagePack: the key, then the number 64.
    assert b".wavefront_size\x40" in code


def test_the_programs_that_ask_for_gpus_are_debians_own(rocm: Built) -> None:
    assert rocm.inside("dpkg", "--verify", "rocminfo", "rocm-smi", "hipcc") == ""
    done = run([ENGINE, "--silent", "exec", "--userns", rocm.image, "rocminfo"])
    assert "gfx90a" not in done.stdout


def test_what_needs_a_gpu_or_slingshot_says_that_there_is_none(rocm: Built) -> None:
    told = json.loads(
        rocm.inside("lumi-verify", "--json", "-", "-k", "computes", "-k", "slingshot/")
    )
    reasons = {row["name"]: row["reason"] for row in told["checks"] if row["state"] == "skipped"}
    assert "no GPU" in reasons["rocm/computes"]
    assert "no network device of the kind cxi" in reasons["slingshot/slingshot"]


def test_lumi_entry_starts_a_program_in_it(rocm: Built) -> None:
    assert rocm.inside("lumi-entry", "--", "sh", "-c", "echo $RANK of $WORLD_SIZE") == "0 of 1\n"


def test_two_ranks_of_its_mpi_find_each_other(rocm: Built, tmp_path: Path) -> None:
    words = ("mpiexec", "-n", 2, "lumi-entry", "--", "sh", "-c", "echo $RANK of $WORLD_SIZE")
    assert sorted(rocm.inside(*words).splitlines()) == ["0 of 2", "1 of 2"]


def test_what_debian_lacks_is_left_out_with_its_reason(rocm: Built) -> None:
    told: subprocess.CompletedProcess[str] = lumicontainer("inspect", rocm.image)
    for layer in ("rccl-plugin", "rccl-tests", "osu"):
        assert f"left out: {layer}: its provider is 'none'" in told.stdout
