"""The layers of PyTorch on LUMI-G: what a profile chooses, what is asked for, what is refused."""

import pytest

from lumicontainer.core.catalog import open_catalog
from lumicontainer.core.model.source import GitSource
from lumicontainer.core.resolve.decisions import Resolved, ResolvedLayer
from lumicontainer.core.resolve.resolve import resolve
from lumicontainer.errors import InputError

CATALOG = open_catalog()


def resolved(recipe: str, *options: str, profile: str = "") -> Resolved:
    return resolve(CATALOG.materials(recipe, "lumi-g", profile), options)


def layer(found: Resolved, name: str) -> ResolvedLayer:
    (one,) = [each for each in found.included() if each.name == name]
    return one


def refusal(*options: str) -> str:
    with pytest.raises(InputError) as raised:
        resolved("pytorch-deepspeed", *options)
    return str(raised.value)


@pytest.mark.parametrize("name", ["SPARSE_ATTN", "EVOFORMER_ATTN"])
def test_the_names_that_slides_print_are_refused_with_the_right_one(name: str) -> None:
    said = refusal(f"deepspeed.DS_BUILD_{name.replace('ATTN', 'ATTEN')}=true")
    assert f"did you mean 'DS_BUILD_{name}'?" in said


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("EVOFORMER_ATTN", "CUTLASS"),
        ("FP_QUANTIZER", "Triton 2.3 to 3.2"),
        ("INFERENCE_CORE_OPS", "mma.h"),
        ("SHM_COMM", "CPU accelerator only"),
    ],
)
def test_an_op_that_cannot_be_built_on_rocm_is_refused_with_the_reason(name: str, why: str) -> None:
    said = refusal(f"deepspeed.DS_BUILD_{name}=true")
    assert f"layer 'deepspeed' cannot build DS_BUILD_{name} for 'rocm'" in said
    assert why in said


def test_the_triton_backend_of_flash_attention_is_set_in_the_image() -> None:
    name = "FLASH_ATTENTION_TRITON_AMD_ENABLE"
    default = layer(resolved("pytorch-deepspeed"), "flash-attention")
    triton = layer(
        resolved("pytorch-deepspeed", "flash-attention.provider=triton"), "flash-attention"
    )
    assert name not in default.content.environment
    assert triton.content.environment[name] == "TRUE"


def test_the_triton_backend_of_flash_attention_fetches_no_composable_kernel() -> None:
    for provider, submodules in (("ck", ("csrc/composable_kernel",)), ("triton", ())):
        image = resolved("pytorch-deepspeed", f"flash-attention.provider={provider}")
        (source,) = layer(image, "flash-attention").content.sources
        assert isinstance(source, GitSource)
        assert source.submodules == submodules
