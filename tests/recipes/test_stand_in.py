"""The recipes of `make rocm-compile`, which compile layers against a stand-in for PyTorch."""

import pytest

from lumicontainer.core.catalog import open_catalog
from lumicontainer.core.resolve.resolve import resolve

from ..conftest import ROOT

OTHERWISE = {"provider", "version", "OPT_DIM"}
"""Allowed differences: where the source is from, and how much of it is compiled."""


@pytest.mark.parametrize(
    ("name", "layer", "recipe"),
    [
        ("apex", "apex", "megatron-deepspeed"),
        ("deepspeed", "deepspeed", "pytorch-deepspeed"),
        ("flash-attention", "flash-attention", "megatron-deepspeed"),
        ("flash-attention-ck", "flash-attention", "megatron-deepspeed"),
        ("horovod", "horovod", "pytorch-deepspeed"),
        ("megatron", "megatron", "megatron-deepspeed"),
    ],
)
def test_the_layer_is_compiled_with_the_scripts_and_flags_of_lumi_g(
    name: str, layer: str, recipe: str
) -> None:
    images = (
        resolve(open_catalog(ROOT / "tests/rocm").materials(name, "rocm-debian", "stand-in"), ()),
        resolve(open_catalog().materials(recipe, "lumi-g", ""), ()),
    )
    own, lumi = (next(each for each in image.layers if each.name == layer) for image in images)
    assert own.files == lumi.files
    flags = own.values().keys() - OTHERWISE
    assert {flag: own.values()[flag] for flag in flags} == {
        flag: lumi.values()[flag] for flag in flags
    }
