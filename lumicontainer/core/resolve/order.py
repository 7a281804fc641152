"""Refuse layers that stand in no order: cycles, what is missing, and what excludes each other."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise

from lumicontainer.core.model import Layer, LayerUse
from lumicontainer.core.resolve.decisions import ResolvedLayer
from lumicontainer.core.yaml.readers import Text
from lumicontainer.errors import Problems, did_you_mean


def check(
    uses: Sequence[LayerUse],
    layers: Mapping[str, Layer],
    resolved: Sequence[ResolvedLayer],
    known: Collection[str],
    problems: Problems,
) -> None:
    """Note where the layers of an image do not fit together as they stand.

    ``known`` are the names of all layers that there are.
    """
    for each in resolved:
        for key, named in (("requires", each.requires), ("conflicts", layers[each.name].conflicts)):
            _check_known(key, named, layers[each.name].name, known, problems)
    names = {each.name for each in resolved if not each.omitted}
    requires = {
        each.name: tuple(dict.fromkeys(each.requires)) for each in resolved if not each.omitted
    }
    cycles = list(_cycles(requires))
    for cycle in cycles:
        first, second, *_ = cycle
        place = next(name.place for name in requires[first] if name == second)
        hint = f"remove '{second}' from the 'requires' of '{first}', or one of the others"
        problems.add(f"layers require each other: {' → '.join(cycle)}", place, hint=hint)
    circular = {pair for cycle in cycles for pair in pairwise(cycle)}
    present: set[str] = set()
    for use, each in zip(uses, resolved, strict=True):
        if each.omitted:
            continue
        for needed in requires[each.name]:
            if needed in known and needed not in present and (each.name, needed) not in circular:
                what = f"layer '{each.name}' requires '{needed}' before it"
                problems.add(what, use.place, hint=f"put '- {needed}' above '- {each.name}'")
        for other in layers[use.layer].conflicts:
            if other in names:
                what = f"layers '{each.name}' and '{other}' exclude each other"
                problems.add(what, use.place, hint="keep one of them")
        present.add(each.name)


def _check_known(
    key: str, named: Sequence[Text], layer: str, known: Collection[str], problems: Problems
) -> None:
    """Note names of layers that there are not."""
    for name in dict.fromkeys(named):
        if name not in known:
            what = f"layer '{name}' not found, which '{key}' of '{layer}' names"
            problems.add(what, name.place, hint=did_you_mean(name, known))


def _cycles(requires: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, ...]]:
    """Yield each cycle once, as the names along it; its first one stands at its end too."""
    done: set[str] = set()
    for start in requires:
        path = [start]
        choices = [iter(requires[start])]
        while choices:
            following = next(choices[-1], None)
            if following is None:
                done.add(path.pop())
                choices.pop()
            elif following in path:
                yield (*path[path.index(following) :], following)
            elif following in requires and following not in done:
                path.append(following)
                choices.append(iter(requires[following]))
