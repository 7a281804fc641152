"""Compare the layers of an image with the layers of the same image, made again."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lumicontainer.trust.statement import PackedLayer

SAME, DIFFERS, OTHER_INPUTS, ADDED, REMOVED = (
    *("same", "other files", "other inputs", "added", "removed"),
)


class LayerComparison(NamedTuple):
    """Say whether one layer of an image is the same again."""

    name: str
    state: str
    """``same``, ``other files`` of the same inputs, ``other inputs``, ``added`` or ``removed``."""


def compare_layers(
    before: Sequence[PackedLayer], after: Sequence[PackedLayer]
) -> Iterator[LayerComparison]:
    """Yield the comparison of each layer, in the order of the new image."""
    old, new = ({each.name: each for each in layers} for layers in (before, after))
    for name, layer in new.items():
        if name not in old:
            yield LayerComparison(name, ADDED)
        elif layer.key != old[name].key:
            yield LayerComparison(name, OTHER_INPUTS)
        else:
            same = layer.sha256 == old[name].sha256
            yield LayerComparison(name, SAME if same else DIFFERS)
    yield from (LayerComparison(name, REMOVED) for name in old if name not in new)
