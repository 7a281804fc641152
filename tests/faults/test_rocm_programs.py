"""Programs of an image for LUMI-G that send, compute and see devices, or do not.

Two ranks of the image's MPICH really send to each other; HIP's kernels run on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ..integration.conftest import ENGINE
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
    for name, flags in {
        "osu_bw": [],
        "missing": ["-Wl,--no-as-needed", "/mnt/libgone.so.3"],
    }.items():
        words = ["mpicc", "-o", f"/mnt/{name}", f"/opt/{source.name}", *flags]
        done = run(Broken(folder / "over", options=[*bind]).command(image, *words))
        assert done.returncode == 0, done.stderr
    return folder


def with_osu(image: Broken, program: Path) -> Broken:
    return image.write(OSU_BW, program.read_bytes(), 0o755)


def test_ranks_that_send_to_each_other_hold(image: Path, lumi: Broken, osu: Path) -> None:
    row = with_osu(lumi, osu / "osu_bw").verify(image, OSU)
    holds(row)
    assert "4096" in row["output"]


@pytest.mark.parametrize(
    ("program", "change", "words"),
    [
        ("missing", lambda image: image, "libgone.so.3 => not found"),
        (
            "osu_bw",
            lambda image: image.write("/opt/venv/bin/mpiexec", OUT_OF_TUNE, 0o755),
            "This test requires exactly two processes",
        ),
        (
            "osu_bw",
            lambda image: image.env("FAULT", "silent"),
            "prints nothing for messages of 4096",
        ),
        ("libgone.so.3.none", lambda image: image, "ldd: "),
    ],
    ids=["a library that is not there", "ranks that do not meet", "no measurement", "no osu_bw"],
)
def test_ranks_that_do_not_send_to_each_other_are_reported(
    image: Path,
    lumi: Broken,
    osu: Path,
    program: str,
    change: Callable[[Broken], Broken],
    words: str,
) -> None:
    if (osu / program).exists():
        with_osu(lumi, osu / program)
    caught(change(lumi).verify(image, OSU), words)


ON_NODES: dict[str, tuple[dict[str, str], str, str, str]] = {
    "a GPU that computes": ({}, "rocm/computes", "passed", ""),
    "a GPU that HIP does not see": (
        {"FAULT": "device"},
        "rocm/computes",
        "failed",
        "hipGetDeviceCount fails",
    ),
    "a GPU without memory": ({"FAULT": "memory"}, "rocm/computes", "failed", "hipMallocManaged"),
    "a GPU that runs no kernel": (
        {"FAULT": "kernel"},
        "rocm/computes",
        "failed",
        "the kernel fails",
    ),
    "a GPU that computes wrongly": (
        {"FAULT": "thread"},
        "rocm/computes",
        "failed",
        "1 GPUs, 1 wrong numbers",
    ),
    "devices of Slingshot's": ({"FI_INFO": "0"}, "slingshot/slingshot", "passed", ""),
    "a libfabric that sees no device of Slingshot's": (
        {},
        "slingshot/slingshot",
        "failed",
        "libfabric finds no device of Slingshot's on this node",
    ),
}
"""What is there, the check, and what comes of it; without more, fi_info is the image's own."""


@pytest.mark.parametrize("words", ON_NODES)
def test_the_devices_of_a_node(image: Path, tmp_path: Path, words: str) -> None:
    env, check, state, reason = ON_NODES[words]
    binds = {
        HERE / "stand_in_programs/stand_in_hipcc": "/usr/local/bin/hipcc",
        HERE / "stand_in_hip": HIP,
    }
    if "FI_INFO" in env:
        stand_in = tmp_path / "stand_in_fi_info"
        stand_in.write_text("#!/bin/sh\necho 'provider: cxi'\n")
        stand_in.chmod(0o755)
        binds[stand_in] = "/usr/bin/fi_info"
    node = gpu.Node(tmp_path, env=env, binds=binds)
    row = gpu.verify(ENGINE, image, node, check)[check]
    assert row["state"] == state, row
    assert reason in row["reason"]
