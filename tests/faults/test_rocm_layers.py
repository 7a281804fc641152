"""An image for LUMI-G in which a layer is not what its recipe says: the checks of its layers fail.

The image is the one for a workstation, with the record and the checks of one for LUMI-G that has
every layer. Stand-ins replace what only ROCm, its packages and HPE's libraries provide.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from .breaking import SITE, Broken, holds
from .stand_in_layers import (
    ALWAYS_TRITON,
    HIP,
    LIBRARIES,
    LINKED,
    MEGATRON,
    OPTIONS,
    OWN_RCCL,
    RCCL,
    STAND_IN_DATASETS,
    apex,
    apex_1_10,
    apex_that_compiles_in_jobs,
    apex_without_a_symbol,
    files,
    flash_attention,
    hipcc,
    hipcc_with_a_library_that_is_gone,
    horovod,
    language_models,
    megatron,
    mpich,
    on_triton,
    rccl_tests,
    recorded,
    slingshot,
    with_driver,
)

FAULTS: dict[str, tuple[Callable[[Broken], Broken], str, str]] = {
    "no Apex": (lambda image: image, "apex/optimizers", "No package metadata was found for apex"),
    "an Apex whose kernels each job compiles": (
        apex_that_compiles_in_jobs,
        "apex/optimizers",
        "Apex is installed without its kernels: neither amp_C nor apex.amp_C is compiled",
    ),
    "an Apex 1.10 for another PyTorch": (
        lambda image: apex_without_a_symbol(image, "apex/amp_C.so"),
        "apex/optimizers",
        "undefined symbol: symbol_of_another_torch",
    ),
    "an Apex without its fused Adam": (
        lambda image: files(apex(image), SITE, {"apex/optimizers.py": ""}),
        "apex/optimizers",
        "FusedAdam",
    ),
    "kernels of Composable Kernel that are not compiled in": (
        lambda image: flash_attention(image, {}),
        "flash-attention/backend",
        "the recipe promises Composable Kernel's kernels, and none are compiled in",
    ),
    "a variable that asks for Triton's kernels": (
        lambda image: flash_attention(image).env("FLASH_ATTENTION_TRITON_AMD_ENABLE", "TRUE"),
        "flash-attention/backend",
        "the kernels of ck, and FLASH_ATTENTION_TRITON_AMD_ENABLE is set",
    ),
    "a variable that does not ask for Triton's kernels": (
        lambda image: on_triton(image, "FALSE"),
        "flash-attention/backend",
        "the kernels of triton, and FLASH_ATTENTION_TRITON_AMD_ENABLE is not set",
    ),
    "a FlashAttention that takes Triton's kernels unasked": (
        lambda image: files(flash_attention(image), SITE, ALWAYS_TRITON),
        "flash-attention/backend",
        "flash_attn is imported with triton, and the recipe promises ck",
    ),
    "the workstation's Horovod": (
        lambda image: image,
        "horovod/gpu_operations",
        "Horovod is built without ROCm",
    ),
    "a Horovod without RCCL": (
        lambda image: horovod(image, RCCL, nccl=False),
        "horovod/gpu_operations",
        "Horovod is built without RCCL",
    ),
    "a Horovod with another RCCL than PyTorch's": (
        lambda image: horovod(image, RCCL, OWN_RCCL),
        "horovod/gpu_operations",
        "do not share the image's RCCL",
    ),
    "a Megatron that was not compiled": (
        lambda image: megatron(image, "helpers"),
        "megatron/training",
        "megatron.data.helpers is not compiled into the image",
    ),
    "a Megatron that has Apex's fused softmax alone": (
        lambda image: megatron(
            image.write(f"{SITE}/scaled_upper_triang_masked_softmax_cuda.py", ""),
            "scaled_upper_triang_masked_softmax_cuda",
        ),
        "megatron/training",
        "scaled_upper_triang_masked_softmax_cuda is not compiled into the image",
    ),
    "a Megatron that asks for what PyTorch has dropped": (
        lambda image: megatron(image, changes={"pretrain_gpt.py": "from torch._six import inf\n"}),
        "megatron/training",
        "No module named 'torch._six'",
    ),
    "somebody else's pretrain_gpt": (
        lambda image: megatron(image.write(f"{SITE}/pretrain_gpt.py", "")),
        "megatron/training",
        "pretrain_gpt is not the one in /opt/megatron-deepspeed",
    ),
    "the workstation's MPICH": (
        lambda image: image,
        "mpich/built_with_hip",
        "MPICH was configured without",
    ),
    "an MPICH without HIP": (
        lambda image: mpich(
            image, options=OPTIONS.replace("--with-hip=/opt/rocm", "--without-hip")
        ),
        "mpich/built_with_hip",
        "MPICH was configured without --with-hip",
    ),
    "an MPICH of another version": (
        lambda image: mpich(image, version="4.1.2"),
        "mpich/built_with_hip",
        "mpichversion does not print 4.3.2",
    ),
    "an MPICH that is linked with no HIP": (
        lambda image: mpich(image, linked=LINKED[:1]),
        "mpich/built_with_hip",
        "libmpi.so.12 is not linked with libamdhip64.so",
    ),
    "an MPICH with a libfabric of its own": (
        lambda image: mpich(image, linked=LINKED[1:]),
        "mpich/built_with_hip",
        "libmpi.so.12 is not linked with libfabric.so.1",
    ),
    "an MPICH without a library": (
        lambda image: mpich(image, linked=(*LINKED, "libze_loader.so.1")),
        "mpich/built_with_hip",
        "libmpi.so.12: libze_loader.so.1",
    ),
    "rccl-tests without MPI": (
        lambda image: rccl_tests(image, "gfx90a", linked=["librccl.so.1"]),
        "rccl-tests/whole",
        "is not linked with libmpi.so.12",
    ),
    "rccl-tests without RCCL": (
        lambda image: rccl_tests(image, "gfx90a", there=["libmpi.so.12"]),
        "rccl-tests/whole",
        "libraries of /usr/local/bin/all_reduce_perf are missing",
    ),
    "rccl-tests for other GPUs": (
        lambda image: rccl_tests(image, "gfx942", "gfx90c"),
        "rccl-tests/whole",
        "has code for gfx942 gfx90c, and none for gfx90a",
    ),
    "no rccl-tests": (
        lambda image: image,
        "rccl-tests/whole",
        "all_reduce_perf not found on PATH",
    ),
    "folders of LUMI's that are not there": (
        lambda image: image,
        "rocm/mount_points",
        "/var/spool/slurmd not found, which LUMI binds",
    ),
    "no hipcc": (lambda image: image, "rocm/compiles", "hipcc: command not found"),
    "a hipcc whose headers are gone": (
        lambda image: hipcc(image, "gfx90a").empty(f"{HIP}/hip"),
        "rocm/compiles",
        "hip/hip_runtime.h: No such file",
    ),
    "a hipcc that compiles for other GPUs": (
        lambda image: hipcc(image, "gfx942"),
        "rocm/compiles",
        "with code for gfx942, and not for gfx90a",
    ),
    "a hipcc that compiles for the CPU alone": (
        hipcc,
        "rocm/compiles",
        "with code for no GPU, and not for gfx90a",
    ),
    "a HIP program that the dynamic linker cannot load": (
        lambda image: hipcc(image, "gfx90a").env("STAND_IN_FLAGS", "-static"),
        "rocm/compiles",
        "not a dynamic executable",
    ),
    "a HIP program that does not find HIP": (
        hipcc_with_a_library_that_is_gone,
        "rocm/compiles",
        "libamdhip64.so.6 => not found",
    ),
    "the workstation's libfabric": (
        lambda image: image,
        "slingshot/libfabric",
        "libfabric.so.1 was built without libcxi: it cannot reach Slingshot",
    ),
    "a libfabric without the provider for any machine": (
        lambda image: slingshot(image, listed="cxi:"),
        "slingshot/libfabric",
        "libfabric has no provider tcp",
    ),
    "a libfabric without libcxi": (
        lambda image: slingshot(image, there=()),
        "slingshot/libfabric",
        "libfabric.so.1: libcxi.so.1",
    ),
    "a libcxi without the libcurl that it opens": (
        lambda image: slingshot(image, curl=False),
        "slingshot/libfabric",
        "/usr/lib64/libcurl.so.4 is missing",
    ),
    "a libfabric that cannot be loaded": (
        lambda image: image.write(f"{LIBRARIES}/libfabric.so.1", "cut"),
        "slingshot/libfabric",
        "fi_info --list fails",
    ),
    "no packages for language models": (
        lambda image: image,
        "training-packages/language_models",
        "No module named 'datasets'",
    ),
    "a trl that does not take this transformers": (
        lambda image: language_models(image, trl="from transformers import NothingOfThatName\n"),
        "training-packages/language_models",
        "cannot import name 'NothingOfThatName' from 'transformers'",
    ),
    "data sets that give another row": (
        lambda image: language_models(image, datasets=STAND_IN_DATASETS.replace("[row]", "[0]")),
        "training-packages/language_models",
        "datasets gives another row",
    ),
}
WELL: dict[str, tuple[Callable[[Broken], Broken], str, str]] = {
    "Apex with its kernels": (apex, "apex/optimizers", "apex 1.9.0"),
    "Apex 1.10 with its kernels": (apex_1_10, "apex/optimizers", "apex 1.10.0"),
    "Composable Kernel's kernels": (flash_attention, "flash-attention/backend", "2.8.3, ck"),
    "Triton's kernels": (
        lambda image: with_driver(on_triton(image)),
        "flash-attention/backend",
        "2.8.3, triton",
    ),
    "Horovod on the image's RCCL": (
        lambda image: horovod(image, RCCL),
        "horovod/gpu_operations",
        "/opt/rocm-6.4.4/lib/librccl.so.1.0",
    ),
    "Megatron": (megatron, "megatron/training", f"{MEGATRON}/pretrain_gpt.py"),
    "Megatron whose kernels the job compiles": (
        lambda image: megatron(
            recorded(image, "megatron", fused_kernels=False),
            "scaled_upper_triang_masked_softmax_cuda",
        ),
        "megatron/training",
        MEGATRON,
    ),
    "MPICH with HIP": (mpich, "mpich/built_with_hip", "--with-hip=/opt/rocm"),
    "rccl-tests": (
        lambda image: rccl_tests(image, "gfx942", "gfx90a"),
        "rccl-tests/whole",
        "all_reduce_perf",
    ),
    "hipcc": (lambda image: hipcc(image, "gfx90a"), "rocm/compiles", "for gfx90a"),
    "libfabric with libcxi": (slingshot, "slingshot/libfabric", "providers: tcp cxi"),
    "the workstation's libfabric where that was asked for": (
        lambda image: recorded(image, "slingshot", provider="debian"),
        "slingshot/libfabric",
        "tcp",
    ),
    "packages for language models": (
        language_models,
        "training-packages/language_models",
        "trl 0",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_layer_that_is_not_what_it_says_is_reported(
    image: Path, lumi: Broken, fault: str
) -> None:
    change, check, words = FAULTS[fault]
    row = change(lumi).verify(image, check)
    assert row["state"] in ("failed", "error"), row
    assert words in row["reason"], row["reason"]


@pytest.mark.parametrize("well", WELL)
def test_a_layer_that_is_what_it_says_holds(image: Path, lumi: Broken, well: str) -> None:
    change, check, words = WELL[well]
    row = change(lumi).verify(image, check)
    holds(row)
    assert words in row["output"]


@pytest.mark.parametrize(
    ("change", "check", "words"),
    [
        (on_triton, "flash-attention/backend", "there is none here"),
        (
            lambda image: recorded(image, "mpich", provider="wheel"),
            "mpich/built_with_hip",
            "the wheel of MPICH",
        ),
    ],
    ids=["kernels of Triton's without a GPU", "an MPICH that was asked for without HIP"],
)
def test_what_is_not_known_is_left_out(
    image: Path, lumi: Broken, change: Callable[[Broken], Broken], check: str, words: str
) -> None:
    row = change(lumi).verify(image, check)
    assert row["state"] == "skipped", row
    assert words in row["reason"]
