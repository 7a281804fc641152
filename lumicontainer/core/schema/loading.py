"""Read recipes, profiles and layers from their files, and refuse what does not fit together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lumicontainer.core.model import (
    Content,
    Layer,
    LayerFile,
    Parameter,
    Profile,
    Provider,
    Recipe,
    Value,
    Variant,
)
from lumicontainer.core.model.layer import LAYER, TYPES
from lumicontainer.core.model.recipe import PROFILE, RECIPE
from lumicontainer.core.schema import layer_files
from lumicontainer.core.schema.check import FOLDER, HOST, IMAGE, read_checks
from lumicontainer.core.schema.requirements import check_files
from lumicontainer.core.yaml.nodes import Node
from lumicontainer.core.yaml.parse import parse, read_document
from lumicontainer.core.yaml.readers import Text
from lumicontainer.core.yaml.validators import COMPILE, FINISH, RESERVED, SCRIPT
from lumicontainer.errors import Place, Problems

PROVIDER = "provider"
"""The parameter that chooses of a layer's providers."""


def parameter_value(parameter: Parameter, node: Node, problems: Problems) -> Value | None:
    """Read the value of a parameter, as its type and its choices want it."""
    value: Value | None = TYPES[parameter.type](node, problems)
    if value is not None and parameter.choices and value not in parameter.choices:
        what = f"invalid value '{value}' of '{parameter.name}'"
        problems.add(what, node.place, hint=f"choose of: {', '.join(parameter.choices)}")
        return None
    return value


def read_recipe(text: str, file: str, problems: Problems, *, stem: str) -> Recipe | None:
    """Read a recipe; ``stem`` is its file's name without the suffix, and becomes its name."""
    found = read_document(RECIPE, text, file, problems)
    return found and found._replace(name=stem, text=text)


def read_profile(text: str, file: str, problems: Problems, *, stem: str) -> Profile | None:
    """Read a profile; ``stem`` is its file's name without the suffix, and becomes its name."""
    found = read_document(PROFILE, text, file, problems)
    return found and found._replace(name=stem)


def read_layer(
    text: str, file: str, problems: Problems, *, stem: str, files: tuple[LayerFile, ...] | None
) -> Layer | None:
    """Read a layer; ``stem`` is the name of its folder, ``files`` are the others in it.

    Where they are None the layer is read without them, which is quicker: it has no checks then.
    """
    before = len(problems.found)
    folder = file.removesuffix("/layer.yaml")
    if stem in (IMAGE, HOST):
        why = "checks that belong to no layer go by that name"
        problems.add(f"no layer can be called '{stem}'", file, why=why, hint="rename its folder")
    root = parse(text, file, problems)
    found = LAYER(root, problems) if root else None
    if files is not None:
        layer_files.judge(_scripts(found), files, file, text, problems)
        check_files(files, folder, problems)
    if found is None or len(problems.found) > before:
        return None
    checks = read_checks(files or (), stem, folder, problems)
    layer = found._replace(
        name=stem,
        parameters=tuple(_parameters(found, problems)),
        files=tuple(each for each in files or () if not each.name.startswith(FOLDER)),
        checks=checks,
    )
    _check_parts(found, problems)
    return layer if len(problems.found) == before else None


def _parts(layer: Layer) -> Iterator[Layer | Variant | Provider]:
    """Yield a layer with its variants, and the providers of each."""
    parts: tuple[Layer | Variant, ...] = (layer, *layer.variants.values())
    for part in parts:
        yield part
        yield from part.providers.values()


def _contents(layer: Layer) -> Iterator[Content]:
    """Yield all content of a layer: its parts', and that of each version."""
    for part in _parts(layer):
        yield from (part.content, *part.versions.values())


def _scripts(layer: Layer | None) -> dict[str, Place | None]:
    """Return the files that are run, with the place that names each; three may be missing."""
    found: dict[str, Place | None] = dict.fromkeys((SCRIPT, COMPILE, FINISH))
    if layer is not None:
        variants = layer.variants.values()
        named = [each for variant in variants for each in (variant.install, variant.compile)]
        named += [each.apt_repositories for each in _contents(layer)]
        for script in named:
            if isinstance(script, Text):
                found.setdefault(script, script.place)
    return found


def _check_parts(layer: Layer, problems: Problems) -> None:
    """Note what a layer's versions and providers miss, and a base that cannot be made."""
    if layer.version is None and any(part.versions for part in _parts(layer)):
        hint = "add 'version: \"…\"', the one of them to take unless another is asked for"
        problems.add("a layer with 'versions' needs 'version'", layer.place, hint=hint)
    declared = {each.name: each for each in layer.parameters}.get(PROVIDER)
    if declared and any(not isinstance(part, Layer | Variant) for part in _parts(layer)):
        why = "'providers' makes one of this name"
        problems.add(f"a parameter cannot be named '{PROVIDER}'", declared.place, why=why)
    for each in () if layer.bootstrap else _contents(layer):
        if isinstance(each.image, Text):
            why = "only a layer with 'bootstrap' is a base"
            problems.add("this layer cannot be an image", each.image.place, why=why)
    for base in layer.bootstrap.values():
        if base.include and base.agent == "docker":
            why = "debootstrap alone installs packages while it makes a base"
            hint = "name them under packages.apt of this layer"
            problems.add("'include' is for debootstrap", base.include[0].place, why=why, hint=hint)


def _parameters(layer: Layer, problems: Problems) -> Iterator[Parameter]:
    """Yield the parameters of a layer, each with the value that its default's node holds."""
    if layer.version is not None:
        summary = "the version to install"
        yield Parameter("version", "string", layer.version, layer.version.place, summary)
    for each in layer.parameters:
        if each.name in {*RESERVED, "version"} or each.name.startswith(("LD_", "BASH_FUNC")):
            what = f"a parameter cannot be named '{each.name}'"
            why = "that name has a meaning of its own in the build"
            problems.add(what, each.place, why=why, hint="choose another name")
            continue
        _check_declaration(each, problems)
        node: Any = each.default
        default = parameter_value(each, node, problems)
        if default is not None:
            yield each._replace(default=default)


def _check_declaration(declared: Parameter, problems: Problems) -> None:
    """Note where a declaration says what its type has no use for."""
    for field, kind in (("choices", "string"), ("unsupported", "boolean")):
        if getattr(declared, field) and declared.type != kind:
            what = (
                f"'{field}' of '{declared.name}' is for the type {kind} only, not {declared.type}"
            )
            hint = f"remove it, or make the parameter a {kind}"
            problems.add(what, declared.place, hint=hint)
