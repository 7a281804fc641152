"""An image in which a program or library would not find what it needs."""

from pathlib import Path

import pytest

from ..unit.compiled import Root
from .breaking import SITE, Broken, caught, holds

CHECK = "image/linkage"
LIBRARIES = "/usr/lib/x86_64-linux-gnu"
TORCH = f"{SITE}/torch/lib"


def test_every_library_of_the_image_finds_what_it_needs(image: Path, broken: Broken) -> None:
    row = broken.verify(image, CHECK)
    holds(row)
    # PyTorch's own test program alone; DeepSpeed's ops find PyTorch's libraries in the process.
    assert row["facts"]["excused"]
    for excused in row["facts"]["excused"]:
        assert "/test_shim needs: a test of PyTorch's own build" in excused


@pytest.fixture(scope="module")
def faulty(image: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return what the check says of an image with all the faults below."""
    broken = Broken(tmp_path_factory.mktemp("linkage") / "over")
    over = Root(broken.folder / "upper")
    scratch = Root(tmp_path_factory.mktemp("scratch"))
    gone = scratch.library("/libgone.so.3")
    over.library(f"{LIBRARIES}/libasker.so.1", needs=[gone])
    # A plugin that only a path of the build leads to.
    flags = ["-Wl,-rpath,/build/of/somebody/lib"]
    over.library("/opt/own/libplugin.so", needs=[gone], flags=flags)
    newer = scratch.library("/libfabric.so.1", defines={"FABRIC_1.0": ["a"], "FABRIC_9.9": ["b"]})
    over.library(f"{LIBRARIES}/libnet.so.1", uses=["b"], needs=[newer])
    libc = scratch.library("/libc.so.6", defines={"GLIBC_2.99": ["newest"]})
    over.library(f"{LIBRARIES}/libnew.so.1", uses=["newest"], needs=[libc])
    broken.write(f"{LIBRARIES}/libcut.so.1", Path("/bin/true").read_bytes()[:500])
    broken.write(f"{LIBRARIES}/libempty.so.2", b"", 0o644)
    broken.write("/usr/bin/empty", b"", 0o755)
    broken.write("/opt/own/libzeros.so", bytes(5000), 0o644)
    of_rocm = "bin/rocgdb-py3.8", "lib/rocprofiler/libatt_plugin.so", "lib/librocprofiler-sdk.so.0"
    for name in of_rocm:
        over.library(f"/opt/rocm-6.4.4/{name}", needs=[gone])
    # None of these is a library or a program.
    broken.write("/opt/own/libscript.so", b"INPUT(-lm)\n", 0o644)
    broken.write("/opt/own/__init__.py", b"", 0o755)
    # An extension of a package that imports nothing of PyTorch.
    torch = scratch.library("/libtorch_cpu.so")
    over.library(f"{SITE}/einops/_fast.so", needs=[torch])
    broken.option("--bind", f"{broken.place('/nothing').parent}:{SITE}/torchmetrics")
    row = broken.verify(image, CHECK)
    assert row["state"] == "failed"
    return list(row["output"].splitlines())


FAULTS = (
    f"libgone.so.3 not found, which {LIBRARIES}/libasker.so.1",
    "libgone.so.3 not found, which /opt/own/libplugin.so",
    f"FABRIC_9.9, which {LIBRARIES}/libnet.so.1 needs",
    f"GLIBC_2.99, which {LIBRARIES}/libnew.so.1 needs",
    f"{LIBRARIES}/libcut.so.1 cannot be loaded: it is damaged",
    f"{LIBRARIES}/libempty.so.2 cannot be loaded: it is empty",
    "/usr/bin/empty cannot be loaded: it is empty",
    "/opt/own/libzeros.so cannot be loaded: it holds zeros",
    f"libtorch_cpu.so not found, which {SITE}/einops",
)


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_not_found_is_named_with_who_wants_it(faulty: list[str], fault: str) -> None:
    assert any(fault in line for line in faulty), faulty


def test_debuggers_and_profilers_are_excused_but_nothing_that_hip_loads(faulty: list[str]) -> None:
    of_rocm = [line for line in faulty if "/opt/rocm" in line]
    assert [line.split()[-2] for line in of_rocm] == ["/opt/rocm-6.4.4/lib/librocprofiler-sdk.so.0"]


def test_what_only_looks_like_a_library_or_a_program_is_passed_over(faulty: list[str]) -> None:
    assert not any("libscript" in line or "__init__" in line for line in faulty)


def test_a_library_that_was_taken_away_is_named(image: Path, broken: Broken) -> None:
    row = broken.write(f"{TORCH}/libc10.so", b"").verify(image, CHECK)
    caught(row, "libc10.so not found, which")
    assert f"libc10.so not found, which {TORCH}/libtorch_cpu.so needs" in row["output"]
    # Nor is it there any more for those that find it in the process.
    assert f"{SITE}/deepspeed/ops/adam/cpu_adam_op" in row["output"]


def test_an_older_library_in_ld_library_path_is_named(
    image: Path, broken: Broken, tmp_path: Path
) -> None:
    Root(tmp_path).library("/old/libstdc++.so.6", defines={"GLIBCXX_3.4": ["old"]})
    broken.option("--bind", f"{tmp_path / 'old'}:/mnt").env("LD_LIBRARY_PATH", "/mnt")
    caught(broken.verify(image, CHECK), "/mnt/libstdc++.so.6 has no version GLIBCXX_3.4.")
