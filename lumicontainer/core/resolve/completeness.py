"""Refuse an image with a missing part before any of it is built."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from lumicontainer.core.model import Bootstrap, Content, LayerUse
from lumicontainer.core.resolve.decisions import ResolvedLayer
from lumicontainer.core.yaml.validators import FINISH
from lumicontainer.errors import Place, Problems

OLDEST_PYTHON = (3, 9)
"""What lumi-entry and the checks are written for."""
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
        found = ", ".join(file.name for file in layer.files)
        why = f"none of its files is {layer.script}: {found}" if found else ""
        hint = f"add {layer.script}, packages, environment or checks; or leave the layer out"
        problems.add(f"layer '{layer.name}' does nothing", use.place, why=why, hint=hint)


def check_python(
    layers: Sequence[ResolvedLayer], bootstrap: Bootstrap, place: Place, problems: Problems
) -> None:
    """Note an image without Python, or with one that is too old for lumi-entry."""
    oldest = ".".join(map(str, OLDEST_PYTHON))
    here = any(_has_python(layer.content) for layer in layers)
    if not here and not any(map(_is_python, bootstrap.include)):
        problems.add(
            "no layer installs Python",
            place,
            why=f"every image needs Python {oldest} or newer for lumi-entry",
            hint="add '- python' to the layers; a layer or a base that has it says so by "
            'provides: {python: "3.12"}',
        )
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
        found = re.match(r"([0-9]+)\.([0-9]+)", stated)
        if found:
            yield layer.name, tuple(map(int, found.groups()))
