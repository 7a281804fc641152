"""Layers of an image that is made again are compared by their keys and bytes."""

from lumicontainer.trust.rebuilt import compare_layers
from lumicontainer.trust.statement import PackedLayer


def test_each_layer_says_why_it_differs() -> None:
    def layer(name: str, key: str = "a", sha256: str = "b") -> PackedLayer:
        return PackedLayer(name, key, sha256, 1)

    before = [layer("base"), layer("files"), layer("inputs"), layer("gone")]
    after = [layer("base"), layer("files", "a", "c"), layer("inputs", "d", "e"), layer("new")]
    assert dict(compare_layers(before, after)) == {
        "base": "same",
        "files": "other files",
        "inputs": "other inputs",
        "new": "added",
        "gone": "removed",
    }
