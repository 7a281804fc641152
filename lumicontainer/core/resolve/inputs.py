"""All that an image is made of, one by one, and whether the recipe itself holds it fast."""

from collections.abc import Iterable, Iterator

from lumicontainer.core.model import Bootstrap, LayerFile
from lumicontainer.core.model.requirements import (
    applies,
    has_hashes,
    is_file_of,
    requirement_lines,
)
from lumicontainer.core.model.source import APT, DEBOOTSTRAP, IMAGE, PYTHON, Input
from lumicontainer.core.resolve.decisions import Resolved, ResolvedLayer

BUILD_REQUIREMENTS = "build.txt"
"""The packages that a layer compiles with; its other requirements are for the image itself."""


def inputs(resolved: Resolved) -> tuple[Input, ...]:
    """Return all inputs of an image, layer by layer."""
    return tuple(each for layer in resolved.included() for each in layer_inputs(resolved, layer))


def layer_inputs(resolved: Resolved, layer: ResolvedLayer) -> Iterator[Input]:
    """Yield the inputs of one layer; the base image is one of the first layer's."""
    if layer is resolved.layers[0]:
        yield _base(layer.name, resolved.bootstrap)
    for word in layer.content.apt:
        yield Input(layer.name, APT, word, stated=word if "=" in word else "", label=f"apt {word}")
    for requirement in layer.content.python:
        yield Input(layer.name, PYTHON, requirement, label=f"Python {requirement}")
    version = layer.values().get("version", "")
    for source in layer.content.sources:
        yield source.input(layer.name, version)
    for each in layer.content.pip_installs:
        requirement = f"{each.package}=={version}"
        index = str(layer.values().get(each.index_parameter, ""))
        yield Input(layer.name, PYTHON, requirement, label=f"Python {requirement}", index_url=index)
    for file in requirement_files(layer.files):
        for requirement in _requirements(resolved, file):
            label_as = f"Python {requirement} ({file.name})"
            yield Input(layer.name, PYTHON, requirement, where=file.name, label=label_as)


def unpinned(resolved: Resolved, layer: ResolvedLayer) -> tuple[str, ...]:
    """Return the inputs of a layer that no hash pins, in words."""
    return tuple(each.label for each in layer_inputs(resolved, layer) if not each.pinned)


def base_label(bootstrap: Bootstrap) -> str:
    """Return a base in words."""
    made = bootstrap.by_debootstrap
    return f"debootstrap {bootstrap.release}" if made else f"image {bootstrap.image}"


def requirement_files(files: Iterable[LayerFile]) -> Iterator[LayerFile]:
    """Yield the files of a layer that are pip's requirements and hold no hashes themselves."""
    return (file for file in files if is_file_of(file) and not has_hashes(file))


def _requirements(resolved: Resolved, file: LayerFile) -> Iterator[str]:
    """Yield the requirements of a file, except those that are not for the image's Python."""
    python = resolved.python()
    for each in requirement_lines(file.content):
        if not python or applies(each.text, python):
            yield each.text


def _base(layer: str, bootstrap: Bootstrap) -> Input:
    label_as = base_label(bootstrap)
    if bootstrap.by_debootstrap:
        return Input(
            layer, DEBOOTSTRAP, bootstrap.release, stated=bootstrap.packages, label=label_as
        )
    image = bootstrap.image if "@sha256:" in bootstrap.image else ""
    return Input(layer, IMAGE, bootstrap.image, stated=image, label=label_as)
