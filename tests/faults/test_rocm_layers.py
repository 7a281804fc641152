"""An image for LUMI-G in which a layer is not what its recipe says: the checks of its layers fail.

The image is the one for a workstation, with the record and the checks of one for LUMI-G that has
every layer. Stand-ins replace what only ROCm, its packages and HPE's libraries provide.
"""

from functools import partial
from pathlib import Path

import pytest

from . import stand_in_layers as layers
from .breaking import SITE, Broken, Change, cases, holds, reports
from .stand_in_layers import APEX_SOFTMAX, HIP, LIBRARIES, LINKED, MEGATRON, OWN_RCCL, RCCL, TRITON

WITHOUT = {
    "apex/optimizers": "No package metadata was found for apex",
    "horovod/gpu_operations": "Horovod is built without ROCm",
    "mpich/built_with_hip": "MPICH was configured without",
    "rccl-tests/whole": "all_reduce_perf not found on PATH",
    "rocm/compiles": "hipcc: command not found",
    "rocm/mount_points": "/user-software not found, which LUMI's modules bind",
    "slingshot/libfabric": "libfabric.so.1 was built without libcxi: it cannot reach Slingshot",
}
"""Facts of the workstation's image, which has other layers."""

FAULTS: dict[str, list[tuple[Change, str]]] = {
    "apex/optimizers": [
        (layers.apex_that_compiles_in_jobs, "neither amp_C nor apex.amp_C is compiled"),
        (layers.apex_for_another_torch, "undefined symbol: symbol_of_another_torch"),
        (lambda image: layers.apex(image).write(f"{SITE}/apex/optimizers.py", ""), "FusedAdam"),
    ],
    "flash-attention/backend": [
        (partial(layers.flash_attention, kernels=False), "the recipe promises Composable Kernel's"),
        (
            lambda image: layers.flash_attention(image).env(TRITON, "TRUE"),
            f"the kernels of ck, and {TRITON} is set",
        ),
        (partial(layers.on_triton, variable="FALSE"), f"of triton, and {TRITON} is not set"),
        (layers.triton_unasked, "imported with triton, and the recipe promises ck"),
    ],
    "horovod/gpu_operations": [
        (partial(layers.horovod, nccl=False), "Horovod is built without RCCL"),
        (partial(layers.horovod, mapped=(RCCL, OWN_RCCL)), "do not share the image's RCCL"),
    ],
    "megatron/training": [
        (partial(layers.megatron, without="helpers"), "megatron.data.helpers is not compiled into"),
        (
            lambda image: layers.megatron(
                image.write(f"{SITE}/{APEX_SOFTMAX}.py", ""), without=APEX_SOFTMAX
            ),
            f"{APEX_SOFTMAX} is not compiled into the image",
        ),
        (partial(layers.megatron, pretrain="import torch._six\n"), "No module named 'torch._six'"),
        (
            lambda image: layers.megatron(image.write(f"{SITE}/pretrain_gpt.py", "")),
            "pretrain_gpt is not the one in /opt/megatron-deepspeed",
        ),
    ],
    "mpich/built_with_hip": [
        (partial(layers.mpich, hip="--without-hip"), "MPICH was configured without --with-hip"),
        (partial(layers.mpich, version="4.1.2"), "mpichversion does not print 4.3.2"),
        (partial(layers.mpich, linked=LINKED[:1]), "is not linked with libamdhip64.so"),
        (partial(layers.mpich, linked=LINKED[1:]), "is not linked with libfabric.so.1"),
        (partial(layers.mpich, linked=(*LINKED, "libze.so.1")), "libmpi.so.12: libze.so.1"),
    ],
    "rccl-tests/whole": [
        (partial(layers.rccl_tests, linked=["librccl.so.1"]), "is not linked with libmpi.so.12"),
        (partial(layers.rccl_tests, libraries=["libmpi.so.12"]), "all_reduce_perf are missing"),
        (partial(layers.rccl_tests, code=["gfx942", "gfx90c"]), "gfx90c, and none for gfx90a"),
    ],
    "rocm/compiles": [
        (lambda image: layers.hipcc(image).empty(f"{HIP}/hip"), "hip/hip_runtime.h: No such"),
        (partial(layers.hipcc, code=["gfx942"]), "with code for gfx942, and not for gfx90a"),
        (partial(layers.hipcc, code=[]), "with code for no GPU, and not for gfx90a"),
        (
            lambda image: layers.hipcc(image).env("STAND_IN_FLAGS", "-static"),
            "not a dynamic executable",
        ),
        (layers.hipcc_with_a_library_that_is_gone, "libamdhip64.so.6 => not found"),
    ],
    "slingshot/libfabric": [
        (partial(layers.slingshot, listed="cxi:"), "libfabric has no provider tcp"),
        (partial(layers.slingshot, libraries=()), "libfabric.so.1: libcxi.so.1"),
        (partial(layers.slingshot, curl=False), "/usr/lib64/libcurl.so.4 is missing"),
        (lambda image: image.write(f"{LIBRARIES}/libfabric.so.1", "cut"), "fi_info --list fails"),
    ],
}
WELL: dict[str, list[tuple[Change, str]]] = {
    "apex/optimizers": [(layers.apex, "apex 1.9.0"), (layers.apex_1_10, "apex 1.10.0")],
    "flash-attention/backend": [
        (layers.flash_attention, "2.8.3, ck"),
        (lambda image: layers.with_driver(layers.on_triton(image)), "2.8.3, triton"),
    ],
    "horovod/gpu_operations": [
        (layers.horovod, "/opt/rocm-6.4.4/lib/librccl.so.1.0"),
        (layers.horovod_under_proot, "/opt/rocm-6.4.4/lib/librccl.so.1.0"),
    ],
    "megatron/training": [
        (layers.megatron, f"{MEGATRON}/pretrain_gpt.py"),
        (layers.megatron_whose_kernels_the_job_compiles, MEGATRON),
    ],
    "mpich/built_with_hip": [(layers.mpich, "--with-hip=/opt/rocm")],
    "rccl-tests/whole": [
        (partial(layers.rccl_tests, code=["gfx942", "gfx90a"]), "all_reduce_perf")
    ],
    "rocm/compiles": [(layers.hipcc, "for gfx90a")],
    "slingshot/libfabric": [
        (layers.slingshot, "providers: tcp cxi"),
        (partial(layers.recorded, layer="slingshot", provider="debian"), "tcp"),
    ],
}
NOT_KNOWN: dict[str, list[tuple[Change, str]]] = {
    "flash-attention/backend": [(layers.on_triton, "there is none here")],
    "mpich/built_with_hip": [
        (partial(layers.recorded, layer="mpich", provider="wheel"), "the wheel of MPICH")
    ],
}


@pytest.mark.parametrize("check", WITHOUT)
def test_a_layer_for_a_workstation_is_not_for_lumi_g(image: Path, lumi: Broken, check: str) -> None:
    reports(lumi.verify(image, check), WITHOUT[check])


@pytest.mark.parametrize(("check", "change", "words"), cases(FAULTS))
def test_a_layer_that_is_not_what_it_says_is_reported(
    image: Path, lumi: Broken, check: str, change: Change, words: str
) -> None:
    reports(change(lumi).verify(image, check), words)


@pytest.mark.parametrize(("check", "change", "words"), cases(WELL))
def test_a_layer_that_is_what_it_says_holds(
    image: Path, lumi: Broken, check: str, change: Change, words: str
) -> None:
    row = change(lumi).verify(image, check)
    holds(row)
    assert words in row["output"]


@pytest.mark.parametrize(("check", "change", "words"), cases(NOT_KNOWN))
def test_what_is_not_known_is_left_out(
    image: Path, lumi: Broken, check: str, change: Change, words: str
) -> None:
    row = change(lumi).verify(image, check)
    assert row["state"] == "skipped", row
    assert words in row["reason"]
