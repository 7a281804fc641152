"""Refuse an image whose layers do not fit together, or in which a part is missing."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

from lumicontainer.core.model import Bootstrap, Content, LayerUse
from lumicontainer.core.resolve.decisions import Materials, ResolvedLayer
from lumicontainer.core.yaml.readers import Text
from lumicontainer.core.yaml.validators import FINISH
from lumicontainer.errors import Place, Problems, did_you_mean


def check_order(
    materials: Materials, resolved: Sequence[ResolvedLayer], problems: Problems
) -> None:
    """Note each place at which the layers of an image do not fit together."""
    layers, known = materials.layers, materials.known
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
    # A base may be an image that was built elsewhere, and hold what our layers install.
    present = set(resolved[0].content.provides)
    omitted = {each.name: each.omitted for each in resolved if each.omitted}
    for use, each in zip(materials.uses, resolved, strict=True):
        if each.omitted:
            continue
        for needed in requires[each.name]:
            if needed in known and needed not in present and (each.name, needed) not in circular:
                _report_missing(needed, each.name, omitted.get(needed, ""), use.place, problems)
        for other in layers[use.layer].conflicts:
            if other in names:
                what = f"layers '{each.name}' and '{other}' exclude each other"
                problems.add(what, use.place, hint="keep one of them")
        present.add(each.name)


def _report_missing(
    needed: str, layer: str, omitted: str, place: Place, problems: Problems
) -> None:
    what = f"layer '{layer}' requires '{needed}' before it"
    why = f"'{needed}' is left out: {omitted}" if omitted else ""
    hint = f"put '- {needed}' above '- {layer}'"
    if omitted:
        hint = f"leave '{layer}' out, or choose another --platform"
    problems.add(what, place, why=why, hint=hint)


def _check_known(
    key: str, named: Sequence[Text], layer: str, known: Collection[str], problems: Problems
) -> None:
    for name in dict.fromkeys(named):
        if name not in known:
            what = f"layer '{name}' not found, which '{key}' of '{layer}' names"
            problems.add(what, name.place, hint=did_you_mean(name, known))


def _cycles(requires: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, ...]]:
    """Yield cycles, as the names along them, until no other is left; the first name ends each."""
    left = {name: [*needed] for name, needed in requires.items()}
    while True:
        try:
            TopologicalSorter(left).prepare()
        except CycleError as error:
            cycle = tuple(reversed(error.args[1]))
            left[cycle[0]].remove(cycle[1])
            yield cycle
        else:
            return


OLDEST_PYTHON = (3, 9)
"""The version for which lumi-entry and the checks are written."""
_PACKAGE = re.compile(r"python3(\.[0-9]+)?(-[a-z0-9.+-]+)?([=:].*)?")
"""Packages of Debian and Ubuntu that are Python, or that need it."""
_FILES_ALONE = re.compile(r"python3?-(doc|common)|.*-doc|libpython.*")


def check_purpose(
    uses: Sequence[LayerUse], layers: Sequence[ResolvedLayer], problems: Problems
) -> None:
    """Note layers that leave the image as it is."""
    for use, layer in zip(uses, layers, strict=True):
        scripts = {layer.script, layer.compile, FINISH}
        does = layer.content != Content() or layer.checks.each or layer.secrets
        if layer.omitted or does or any(file.name in scripts for file in layer.files):
            continue
        names = ", ".join(file.name for file in layer.files)
        why = f"none of its files is {layer.script}: {names}" if names else ""
        hint = f"add {layer.script}, packages, environment or checks; or leave the layer out"
        problems.add(f"layer '{layer.name}' does nothing", use.place, why=why, hint=hint)


def check_python(
    layers: Sequence[ResolvedLayer], bootstrap: Bootstrap, place: Place, problems: Problems
) -> None:
    """Note an image without Python, or with one that is too old for lumi-entry."""
    oldest = ".".join(map(str, OLDEST_PYTHON))
    here = any(_has_python(layer.content) for layer in layers)
    if not here and not any(map(_is_python, bootstrap.include)):
        why = f"every image needs Python {oldest} or newer for lumi-entry"
        says = 'a layer or a base that has it says so by provides: {python: "3.12"}'
        hint = f"add '- python' to the layers; {says}"
        problems.add("no layer installs Python", place, why=why, hint=hint)
    for name, version in _versions(layers):
        if version < OLDEST_PYTHON:
            shown = ".".join(map(str, version))
            what = f"layer '{name}' has Python {shown}, and lumi-entry needs {oldest} or newer"
            problems.add(what, place, hint="install a newer Python, or take another base")


def _has_python(content: Content) -> bool:
    return "python" in content.provides or any(map(_is_python, content.apt))


def _is_python(package: str) -> bool:
    name = re.split("[=:]", package)[0]
    return bool(_PACKAGE.fullmatch(package)) and not _FILES_ALONE.fullmatch(name)


def _versions(layers: Iterable[ResolvedLayer]) -> Iterator[tuple[str, tuple[int, ...]]]:
    for layer in layers:
        stated = {**layer.content.apt_versions, **layer.content.provides}.get("python", "")
        match = re.match(r"([0-9]+)\.([0-9]+)", stated)
        if match:
            yield layer.name, tuple(map(int, match.groups()))
