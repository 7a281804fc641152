"""Packages that an image compiles are not added to it."""

from lumicontainer.extending.resolving.replaced import find_replaced


def test_what_a_layer_compiles_is_no_package_to_add() -> None:
    lines = [
        "flash-attn>=2",
        "apex",
        "vllm",
        "rich",
        "deepspeed",
        "horovod @ https://a.example/b.whl",
    ]
    reasons = {each.what: each.why for each in find_replaced(lines, {"deepspeed"})}
    assert list(reasons) == [
        "flash-attn has to be compiled for the image",
        "apex has to be compiled for the image",
        "vllm cannot be added to an image",
    ]
    assert (
        reasons["flash-attn has to be compiled for the image"]
        == "the layer flash-attention does it"
    )
