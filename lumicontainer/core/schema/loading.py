"""Read recipes, profiles and layers from their files into the types of ``model``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lumicontainer.core.model import (
    Bootstrap,
    Layer,
    LayerFile,
    LayerUse,
    Parameter,
    Profile,
    Recipe,
    Value,
)
from lumicontainer.core.nodes import Mapping as MappingNode
from lumicontainer.core.nodes import Node
from lumicontainer.core.schema import contents, layer_files, readers, validators
from lumicontainer.core.schema.check import FOLDER, HOST, IMAGE, read_checks
from lumicontainer.core.schema.contents import apt_name
from lumicontainer.core.schema.requirements import check_files
from lumicontainer.core.schema.validators import (
    COMPILE,
    FINISH,
    RESERVED,
    SCRIPT,
    name,
    printed,
    variable,
)
from lumicontainer.core.schema.yaml_nodes import parse
from lumicontainer.errors import Place, Problems

TYPES: dict[str, readers.Reader[Any]] = {
    "string": readers.text,
    "integer": readers.integer,
    "boolean": readers.boolean,
}
PROVIDER = "provider"
"""The parameter that chooses of a layer's providers."""

_BOOTSTRAP = readers.record(
    "a bootstrap",
    {
        "agent": readers.choice(("debootstrap", "docker")),
        "release": name,
        "include": readers.with_place(readers.sequence(apt_name)),
        "docker_image": contents.image,
    },
    required=("agent", "docker_image"),
)
_PARAMETER = readers.record(
    "a parameter",
    {
        "type": readers.choice(tuple(TYPES)),
        "default": validators.raw,
        "summary": printed,
        "choices": readers.sequence(readers.text),
        "unsupported": readers.mapping(readers.line, key=validators.accelerator),
    },
    required=("type", "default"),
)
_paths = readers.matching(r"/[A-Za-z0-9._/+*?-]*", "an absolute path, in which * and ? may stand")
LAYER = readers.record(
    "layer",
    {
        "summary": printed,
        "version": readers.with_place(readers.line),
        "requires": readers.sequence(readers.with_place(name)),
        "conflicts": readers.sequence(readers.with_place(name)),
        "parameters": readers.mapping(readers.with_place(_PARAMETER), key=variable),
        "variants": readers.mapping(contents.VARIANT, key=validators.accelerator),
        "bootstrap": readers.mapping(_BOOTSTRAP, key=validators.accelerator),
        "secrets": readers.sequence(name),
        "not_reproducible": readers.mapping(readers.line, key=_paths),
        **contents.KEYS,
    },
    required=("summary",),
)


def parameter_value(parameter: Parameter, node: Node, problems: Problems) -> Value | None:
    """Read the value of a parameter, as its type and its choices want it."""
    value: Value | None = TYPES[parameter.type](node, problems)
    if value is not None and parameter.choices and value not in parameter.choices:
        known = ", ".join(parameter.choices)
        problems.add(
            f"invalid value '{value}' of '{parameter.name}'", node.place, hint=f"choose of: {known}"
        )
        return None
    return value


def read_recipe(text: str, file: str, problems: Problems, *, stem: str) -> Recipe | None:
    """Read a recipe; ``stem`` is its file's name without the suffix, and becomes its name."""
    root = parse(text, file, problems)
    before = len(problems.found)
    if root is None:
        return None
    values = RECIPE(root, problems)
    if values is None or len(problems.found) > before:
        return None
    return Recipe(stem, place=root.place, text=text, **values)


def read_profile(text: str, file: str, problems: Problems, *, stem: str) -> Profile | None:
    """Read a profile; ``stem`` is its file's name without the suffix, and becomes its name."""
    root = parse(text, file, problems)
    before = len(problems.found)
    values = PROFILE(root, problems) if root else None
    if values is None or len(problems.found) > before or root is None:
        return None
    return Profile(stem, place=root.place, **values)


@readers.described(
    {
        "oneOf": [
            readers.schema_of(name),
            {
                **readers.schema_of(readers.mapping(validators.values, key=name)),
                "minProperties": 1,
                "maxProperties": 1,
            },
        ]
    }
)
def _layer_use(node: Node, problems: Problems) -> LayerUse | None:
    """Read ``name``, or ``name: {parameter: value}``."""
    if not isinstance(node, MappingNode):
        layer = name(node, problems)
        return None if layer is None else LayerUse(layer, node.place)
    if len(node.entries) != 1:
        problems.add(
            "a layer with parameters is written 'name: {parameter: value}'",
            node.place,
            hint="begin each layer on a line of its own with '- '",
        )
        return None
    key, given = node.entries[0]
    layer, values = name(key, problems), validators.values(given, problems)
    return None if layer is None or values is None else LayerUse(layer, key.place, values)


@readers.described(readers.schema_of(readers.mapping(validators.values, key=name)))
def _layer_uses(node: Node, problems: Problems) -> tuple[LayerUse, ...] | None:
    """Read ``name: {parameter: value}`` for any number of layers."""
    if not isinstance(node, MappingNode):
        problems.add(f"a mapping is wanted here, not {readers.kind_of(node)}", node.place)
        return None
    uses = []
    for key, given in node.entries:
        layer, values = name(key, problems), validators.values(given, problems)
        if layer is not None and values is not None:
            uses.append(LayerUse(layer, key.place, values))
    return tuple(uses)


@readers.described(readers.schema_of(readers.sequence(validators.stem)))
def _profile_names(node: Node, problems: Problems) -> dict[str, Place] | None:
    found = readers.sequence(readers.with_place(validators.stem))(node, problems)
    return None if found is None else dict(found)


RECIPE = readers.record(
    "recipe",
    {
        "summary": printed,
        "base": _layer_use,
        "layers": readers.sequence(_layer_use),
        "profiles": _profile_names,
    },
    required=("summary", "base", "layers"),
)
PROFILE = readers.record(
    "profile",
    {
        "summary": printed,
        "accelerator": validators.accelerator,
        "base": _layer_use,
        "values": _layer_uses,
    },
    required=("summary", "accelerator"),
)


def read_layer(
    text: str, file: str, problems: Problems, *, stem: str, files: tuple[LayerFile, ...] | None
) -> Layer | None:
    """Read a layer; ``stem`` is the name of its folder, ``files`` are the others in it.

    Where they are None the layer is read without them, which is quicker: it has no checks then.
    """
    before = len(problems.found)
    if stem in (IMAGE, HOST):
        why = "checks that belong to no layer go by that name"
        problems.add(f"no layer can be called '{stem}'", file, why=why, hint="rename its folder")
    root = parse(text, file, problems)
    values = LAYER(root, problems) if root else None
    if files is not None:
        layer_files.judge(_scripts(values or {}), files, file, text, problems)
        check_files(files, file.removesuffix("/layer.yaml"), problems)
    if values is None or len(problems.found) > before or root is None:
        return None
    parameters = _parameters(values, problems)
    checks = read_checks(files or (), stem, file.removesuffix("/layer.yaml"), problems)
    _check_parts(values, root.place, problems)
    if len(problems.found) > before:
        return None
    return Layer(
        name=stem,
        summary=values["summary"],
        place=root.place,
        requires=contents.names_of(values, "requires"),
        conflicts=contents.names_of(values, "conflicts"),
        places=_layers_named(values),
        parameters=parameters,
        content=contents.content(values),
        versions=contents.versions(values),
        providers=contents.providers(values),
        variants={key: contents.variant(each) for key, each in values.get("variants", {}).items()},
        bootstrap={key: _bootstrap(each) for key, each in values.get("bootstrap", {}).items()},
        files=tuple(each for each in files or () if not each.name.startswith(FOLDER)),
        checks=checks,
        secrets=values.get("secrets", ()),
        not_reproducible=values.get("not_reproducible", {}),
    )


def _layers_named(values: dict[str, Any]) -> dict[str, Place]:
    """Return the other layers that a layer names, each with the first place that names it."""
    keys = ("requires", "conflicts")
    rows = [row for part in _all_parts(values) for key in keys for row in part.get(key, ())]
    return dict(reversed(rows))


def _scripts(values: dict[str, Any]) -> dict[str, Place | None]:
    """Return the files that are run, with the place that names each; two need not be there."""
    found: dict[str, Place | None] = {SCRIPT: None, COMPILE: None, FINISH: None}
    for part in _all_parts(values):
        for key in ("install", "compile", "apt_repositories"):
            if part.get(key):
                script, place = part[key]
                found.setdefault(script, place)
    return found


def _all_parts(values: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a layer with its variants, their providers, and the versions of each."""
    yield values
    for key in ("variants", "providers", "versions"):
        for part in (values.get(key) or {}).values():
            yield from _all_parts(part) if part else ()


def _check_parts(values: dict[str, Any], place: Place, problems: Problems) -> None:
    """Note what a layer's versions and providers miss, and a base that cannot be made."""
    variants = list(values.get("variants", {}).values())
    parts = [values, *variants]
    parts += [each for part in parts for each in part.get("providers", {}).values()]
    if "version" not in values and any(part.get("versions") for part in parts):
        hint = "add 'version: \"…\"', the one of them to take unless another is asked for"
        problems.add("a layer with 'versions' needs 'version'", place, hint=hint)
    if PROVIDER in values.get("parameters", {}) and any(part.get("providers") for part in parts):
        _, where = values["parameters"][PROVIDER]
        why = "'providers' makes one of this name"
        problems.add(f"a parameter cannot be named '{PROVIDER}'", where, why=why)
    versions = [each for part in parts for each in part.get("versions", {}).values()]
    for each in versions if "bootstrap" not in values else ():
        if "docker_image" in each:
            why = "only a layer with 'bootstrap' is a base"
            problems.add("this layer cannot be an image", each["docker_image"][1], why=why)
    for each in values.get("bootstrap", {}).values():
        if each.get("include") and each["agent"] == "docker":
            why = "debootstrap alone installs packages while it makes a base"
            hint = "name them under packages.apt of this layer"
            problems.add("'include' is for debootstrap", each["include"][1], why=why, hint=hint)


def _parameters(values: dict[str, Any], problems: Problems) -> tuple[Parameter, ...]:
    result = []
    if "version" in values:
        version, place = values["version"]
        result.append(Parameter("version", "string", version, place, "the version to install"))
    for key, (declared, place) in values.get("parameters", {}).items():
        if key in RESERVED or key.startswith(("LD_", "BASH_FUNC")) or key == "version":
            problems.add(
                f"a parameter cannot be named '{key}'",
                place,
                why="that name has a meaning of its own in the build",
                hint="choose another name",
            )
            continue
        _check_declaration(key, declared, place, problems)
        bare = {k: v for k, v in declared.items() if k != "default"}
        parameter = Parameter(name=key, default="", place=place, **bare)
        default = parameter_value(parameter, declared["default"][0], problems)
        if default is not None:
            result.append(Parameter(name=key, default=default, place=place, **bare))
    return tuple(result)


def _check_declaration(
    name: str, declared: dict[str, Any], place: Place, problems: Problems
) -> None:
    """Note where a declaration says what its type has no use for."""
    for field, kind in (("choices", "string"), ("unsupported", "boolean")):
        if field in declared and declared["type"] != kind:
            problems.add(
                f"'{field}' of '{name}' is for the type {kind} only, not {declared['type']}",
                place,
                hint=f"remove it, or make the parameter a {kind}",
            )


def _bootstrap(values: dict[str, Any]) -> Bootstrap:
    include, _ = values.get("include", ((), None))
    return Bootstrap(values["agent"], values.get("release", ""), include, values["docker_image"])
