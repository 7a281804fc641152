"""The recipes of `make rocm-compile`, which compile layers against a stand-in for PyTorch."""

import pytest

from lumicontainer.core.catalog import open_catalog
from lumicontainer.core.resolve.resolve import resolve

from ..conftest import ROOT

OTHERWISE = {"provider", "version", "OPT_DIM"}
"""Allowed differences: where the source is from, and how much of it is compiled."""


@pytest.mark.parametrize(
    ("stand_in", "profile", "name", "layer", "recipe"),
    [
        *(
            (*profiles, name, name, recipe)
            for profiles in (("stand-in", "rocm-6.4.4"), ("stand-in-7", "rocm-7.0.2"))
            for name, recipe in (
                ("apex", "megatron-deepspeed"),
                ("deepspeed", "pytorch-deepspeed"),
                ("horovod", "pytorch-deepspeed"),
                ("megatron", "megatron-deepspeed"),
            )
        ),
        ("stand-in", "rocm-6.4.4", "flash-attention", "flash-attention", "megatron-deepspeed"),
        ("stand-in", "rocm-6.4.4", "flash-attention-ck", "flash-attention", "megatron-deepspeed"),
        ("stand-in-7", "rocm-7.0.2", "bitsandbytes", "bitsandbytes", "pytorch-deepspeed"),
        ("stand-in-7", "rocm-7.0.2", "jax", "jax", "jax"),
    ],
)
def test_the_layer_is_compiled_with_the_scripts_and_flags_of_lumi_g(
    stand_in: str, profile: str, name: str, layer: str, recipe: str
) -> None:
    images = (
        resolve(open_catalog(ROOT / "tests/rocm").materials(name, "rocm-debian", stand_in), ()),
        resolve(open_catalog().materials(recipe, "lumi-g", profile), ()),
    )
    own, lumi = (next(each for each in image.layers if each.name == layer) for image in images)
    assert own.files == lumi.files
    flags = own.values().keys() - OTHERWISE
    assert {flag: own.values()[flag] for flag in flags} == {
        flag: lumi.values()[flag] for flag in flags
    }
