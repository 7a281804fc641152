"""Programs of an image for LUMI-G that send, compute and see devices, or do not.

Two ranks of the image's MPICH really send to each other; HIP's kernels run on the CPU.
"""

from pathlib import Path

import pytest

from ..programs import run
from ..unit.compiled import Root
from . import gpu
from .breaking import NO_OPTIONS, Broken, caught, holds
from .stand_in_layers import HERE, HIP

OSU_BW = "/usr/libexec/osu-micro-benchmarks/mpi/pt2pt/osu_bw"
OSU = "osu/two_ranks"
OUT_OF_TUNE = f'#!/bin/sh\n{NO_OPTIONS}"$@" && "$@"\n'
"""An mpiexec whose ranks do not find each other."""


@pytest.fixture(scope="module")
def osu(image: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return what stands in for osu_bw, compiled in the image; one misses a library."""
    folder = tmp_path_factory.mktemp("osu")
    Root(folder).library("/libgone.so.3")
    source = HERE / "stand_in_programs/stand_in_osu_bw_on_cpu.c"
    bind = ["--bind", f"{folder}:/mnt", "--bind", f"{source}:/opt/{source.name}"]
    missing = ["-Wl,--no-as-needed", "/mnt/libgone.so.3"]
    for name, flags in {"osu_bw": [], "missing": missing}.items():
        words = ["mpicc", "-o", f"/mnt/{name}", f"/opt/{source.name}", *flags]
        done = run(Broken(folder / "over", options=[*bind]).command(image, *words))
        assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def sending(lumi: Broken, osu: Path) -> Broken:
    """Return an image whose osu_bw sends."""
    return lumi.write(OSU_BW, (osu / "osu_bw").read_bytes(), 0o755)


def test_ranks_that_send_to_each_other_hold(image: Path, sending: Broken) -> None:
    row = sending.verify(image, OSU)
    holds(row)
    assert "4096" in row["output"]


def test_an_image_without_osu_bw_is_reported(image: Path, lumi: Broken) -> None:
    caught(lumi.verify(image, OSU), "ldd: ")


def test_a_library_that_osu_bw_misses_is_reported(image: Path, lumi: Broken, osu: Path) -> None:
    lumi.write(OSU_BW, (osu / "missing").read_bytes(), 0o755)
    caught(lumi.verify(image, OSU), "libgone.so.3 => not found")


def test_ranks_that_do_not_meet_are_reported(image: Path, sending: Broken) -> None:
    sending.write("/opt/venv/bin/mpiexec", OUT_OF_TUNE, 0o755)
    caught(sending.verify(image, OSU), "This test requires exactly two processes")


def test_an_osu_bw_that_measures_nothing_is_reported(image: Path, sending: Broken) -> None:
    row = sending.env("FAULT", "silent").verify(image, OSU)
    caught(row, "prints nothing for messages of 4096")


COMPUTES, SLINGSHOT = "rocm/computes", "slingshot/slingshot"


@pytest.mark.parametrize(
    ("check", "env", "state", "reason"),
    [
        (COMPUTES, {}, "passed", ""),
        (COMPUTES, {"FAULT": "device"}, "failed", "hipGetDeviceCount fails"),
        (COMPUTES, {"FAULT": "memory"}, "failed", "hipMallocManaged"),
        (COMPUTES, {"FAULT": "kernel"}, "failed", "the kernel fails"),
        (COMPUTES, {"FAULT": "thread"}, "failed", "1 GPUs, 1 wrong numbers"),
        (SLINGSHOT, {"FI_INFO": "0"}, "passed", ""),
        (SLINGSHOT, {}, "failed", "libfabric finds no device of Slingshot's on this node"),
    ],
)
def test_the_devices_of_a_node(
    image: Path, tmp_path: Path, check: str, env: dict[str, str], state: str, reason: str
) -> None:
    """Without FI_INFO, fi_info is the image's own, which sees no device."""
    programs = HERE / "stand_in_programs"
    binds = {programs / "stand_in_hipcc": "/usr/local/bin/hipcc", HERE / "stand_in_hip": HIP}
    if "FI_INFO" in env:
        stand_in = tmp_path / "stand_in_fi_info"
        stand_in.write_text("#!/bin/sh\necho 'provider: cxi'\n")
        stand_in.chmod(0o755)
        binds[stand_in] = "/usr/bin/fi_info"
    row = gpu.verify(image, tmp_path, gpu.Node(env=env, binds=binds), check)[check]
    assert row["state"] == state, row
    assert reason in row["reason"]
