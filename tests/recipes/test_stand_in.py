"""The recipes of `make rocm-compile`, which compile layers against a stand-in for PyTorch."""

import pytest

from lumicontainer.core.catalog import open_catalog
from lumicontainer.core.resolve.resolve import resolve

from ..conftest import ROOT

LAYERS = {
    "apex": "megatron-deepspeed",
    "deepspeed": "pytorch-deepspeed",
    "flash-attention": "megatron-deepspeed",
    "horovod": "pytorch-deepspeed",
}
"""Each with a recipe that has it on LUMI-G."""


@pytest.mark.parametrize(("layer", "recipe"), LAYERS.items())
def test_the_layer_is_compiled_with_the_scripts_and_flags_of_lumi_g(
    layer: str, recipe: str
) -> None:
    catalog = open_catalog(ROOT / "tests/rocm")
    images = (
        resolve(catalog.materials(layer, "rocm-debian", "stand-in"), ()),
        resolve(open_catalog().materials(recipe, "lumi-g", ""), ()),
    )
    own, lumi = (next(each for each in image.layers if each.name == layer) for image in images)
    assert own.files == lumi.files
    flags = own.values().keys() - {"provider", "version"}
    assert {name: own.values()[name] for name in flags} == {
        name: lumi.values()[name] for name in flags
    }
