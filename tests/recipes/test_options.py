"""The shipped layers on LUMI-G: what an option chooses, and what is refused."""

import pytest
import yaml

from lumicontainer.core.catalog import open_catalog
from lumicontainer.core.model.source import GitSource
from lumicontainer.core.resolve.decisions import Resolved, ResolvedLayer
from lumicontainer.core.resolve.resolve import resolve
from lumicontainer.core.rules.rules import ERROR, HOLDS
from lumicontainer.errors import InputError

from ..conftest import ROOT

CATALOG = open_catalog()
FABRIC = "/opt/cray/libfabric/1.22.0/lib64/libfabric.so.1"
MPI = "${CRAY_MPICH_DIR:-/opt/cray/pe/mpich/*/ofi/gnu/*}/lib-abi-mpich/libmpi.so.12"


def resolved(recipe: str, *options: str, platform: str = "lumi-g", profile: str = "") -> Resolved:
    return resolve(CATALOG.materials(recipe, platform, profile), options)


def layer(resolution: Resolved, name: str) -> ResolvedLayer:
    (one,) = [each for each in resolution.included() if each.name == name]
    return one


@pytest.mark.parametrize(
    ("recipe", "profile", "own_profile"),
    [
        *((name, "rocm-6.4.4", "rocm-debian") for name in ("rocm", "pytorch", "pytorch-deepspeed")),
        ("megatron-deepspeed", "rocm-6.4.4", "rocm-debian"),
        *(("rocm", "rocm-7.0.2", f"rocm-debian-7{more}") for more in ("", "-plugin-1.21")),
        ("jax", "rocm-7.0.2", "rocm-debian-7"),
    ],
)
def test_debians_rocm_is_built_with_the_layers_and_scripts_of_lumi_g(
    recipe: str, profile: str, own_profile: str
) -> None:
    lumi = resolved(recipe, profile=profile)
    debian = resolved(recipe, platform="rocm-debian", profile=own_profile)
    held = [each for each in debian.findings if (each.state, each.rule.level) == (HOLDS, ERROR)]
    assert held == []
    scripts, own = ({each.name: set(each.files) for each in e.included()} for e in (lumi, debian))
    gone = {each.name: each.omitted for each in debian.layers if each.name in scripts.keys() - own}
    assert gone.keys() == ({"osu"} if recipe == "rocm" else set())
    assert all(gone.values())
    assert own.keys() - scripts.keys() <= {"debian", "rccl"}
    both = scripts.keys() & own
    assert {name: own[name] for name in both} == {name: scripts[name] for name in both}


def test_the_profile_with_the_newest_plugin_differs_in_that_alone() -> None:
    older, newest = (
        yaml.safe_load((ROOT / f"recipes/profiles/rocm-debian-7{more}.yaml").read_text())
        for more in ("", "-plugin-1.21")
    )
    older["values"]["rccl-plugin"]["version"] = "1.21.1"
    assert newest == {**older, "summary": newest["summary"]}


# src/device/generate.py of RCCL 2.21.5.
COLLECTIVES = {
    *("AllGather", "AllReduce", "AllToAllPivot", "Broadcast"),
    *("Reduce", "ReduceScatter", "SendRecv"),
}


def test_rccl_from_source_has_all_functions_for_gfx90a_and_none_for_other_gpus() -> None:
    rccl = layer(resolved("rocm", platform="rocm-debian", profile="rocm-debian"), "rccl")
    patterns = [each.split() for each in str(rccl.values()["kernels"]).split("|")]
    assert {collective for collective, *_ in patterns} == COLLECTIVES
    # All algorithms, protocols, operations and types, with loops unrolled as for gfx90a.
    assert all(rest == [*"****", "4"] for _, *rest in patterns)


@pytest.mark.parametrize(
    ("layer", "libraries", "binds"),
    [
        ("slingshot", {FABRIC, "/usr/lib64/libcxi.so.1"}, {"/opt/cray"}),
        ("mpich", {MPI}, {"/opt/cray", "/var/spool", "/run/cxi"}),
    ],
)
def test_one_word_takes_a_layer_from_the_host(
    layer: str, libraries: set[str], binds: set[str]
) -> None:
    own, host = resolved("rocm"), resolved("rocm", f"{layer}.provider=host")
    assert not own.host_libraries()
    assert {each.path for each in host.host_libraries()} == libraries
    assert {each.path for each in host.binds()} - {each.path for each in own.binds()} == binds


def test_amds_own_image_is_taken_by_its_digest() -> None:
    resolution = resolved("rocm", "ubuntu.version=rocm-6.4.4", "rocm.provider=image")
    assert resolution.bootstrap.image.startswith("docker.io/rocm/dev-ubuntu-24.04@sha256:31418ac1")


def test_the_triton_backend_of_flash_attention_is_set_and_needs_no_composable_kernel() -> None:
    name = "FLASH_ATTENTION_TRITON_AMD_ENABLE"
    for options, submodules, variables in (
        ((), ("csrc/composable_kernel",), {}),
        (("flash-attention.provider=triton",), (), {name: "TRUE"}),
    ):
        content = layer(resolved("pytorch-deepspeed", *options), "flash-attention").content
        (source,) = content.sources
        assert isinstance(source, GitSource)
        assert source.submodules == submodules
        assert content.environment == variables


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("rocm.version=7.1.0", ["does not know the version", "its versions are"]),
        ("slingshot.version=13.0.0", ["does not know the version", "its versions are"]),
        ("rccl-plugin.version=1.17.2", ["does not know the version", "its versions are"]),
        # Slides print these names.
        ("deepspeed.DS_BUILD_SPARSE_ATTEN=true", ["did you mean 'DS_BUILD_SPARSE_ATTN'?"]),
        ("deepspeed.DS_BUILD_EVOFORMER_ATTEN=true", ["did you mean 'DS_BUILD_EVOFORMER_ATTN'?"]),
        ("deepspeed.DS_BUILD_EVOFORMER_ATTN=true", ["cannot build", "CUTLASS"]),
        ("deepspeed.DS_BUILD_FP_QUANTIZER=true", ["cannot build", "Triton 2.3 to 3.2"]),
        ("deepspeed.DS_BUILD_INFERENCE_CORE_OPS=true", ["cannot build", "mma.h"]),
        ("deepspeed.DS_BUILD_SHM_COMM=true", ["cannot build", "CPU accelerator only"]),
    ],
)
def test_what_nobody_has_tried_or_can_build_is_refused_with_the_reason(
    option: str, words: list[str]
) -> None:
    with pytest.raises(InputError) as refused:
        resolved("pytorch-deepspeed", option)
    (problem,) = refused.value.problems
    for word in words:
        assert word in str(problem)


def test_mpich_needs_rocm_and_slingshot_on_platforms_with_gpus() -> None:
    assert layer(resolved("rocm", platform="workstation"), "mpich").requires == ("python",)
    mpich = layer(resolved("rocm"), "mpich")
    assert {"rocm", "slingshot"} <= set(mpich.requires)
    assert {file.name for file in mpich.files} == {"install-rocm.sh"}
