"""Read recipes and layers from their files into the types of ``model``."""

from __future__ import annotations

from typing import Any

from lumicontainer import fields
from lumicontainer.document import Mapping as MappingNode
from lumicontainer.document import Node, Place, Problems, parse
from lumicontainer.hazards import hazards
from lumicontainer.model import (
    Bootstrap,
    Content,
    Layer,
    LayerFile,
    LayerUse,
    Parameter,
    Recipe,
    Source,
    Value,
    Variant,
)

ACCELERATORS = ("cpu", "rocm")
SCRIPT, COMPILE = "install.sh", "compile.sh"
TYPES: dict[str, fields.Reader[Any]] = {
    "string": fields.text,
    "integer": fields.integer,
    "boolean": fields.boolean,
}
# Names that would change how the shell itself works, or that the build sets.
RESERVED = {
    *("PATH", "HOME", "TMPDIR", "PWD", "IFS", "CDPATH", "ENV", "BASH_ENV", "SHELLOPTS"),
    *("BASHOPTS", "PS4", "UID", "EUID", "PPID", "jobs", "wheels", "secrets"),
}

name = fields.matching(r"[a-z0-9][a-z0-9.+-]*", "a name of small letters, digits, '-', '.', '+'")
variable = fields.matching(r"[A-Za-z_][A-Za-z0-9_]*", "the name of a shell variable")
_apt_package = fields.matching(r"[a-z0-9][a-z0-9+.:=~_-]*", "the name of a Debian package")
_requirement = fields.matching(r"[A-Za-z0-9][^\n;@]*", "a requirement such as numpy==2.3.4")
absolute = fields.matching(r"/[A-Za-z0-9._/+-]*", "an absolute path of plain characters")
_image = fields.matching(r"[A-Za-z0-9][A-Za-z0-9._/:@-]*", "an image such as debian:bookworm")
_sha256 = fields.matching(r"[0-9a-f]{64}", "64 hexadecimal digits")


def constant(node: Node, problems: Problems) -> str | None:
    """Read the name of a variable that an image may hold for good."""
    value = variable(node, problems)
    if value in RESERVED:
        mend = "use 'path:' for folders" if value == "PATH" else "leave it out"
        why = "it belongs to the shell or to the user who enters the image"
        problems.add(f"the environment cannot hold '{value}'", node.place, why=why, mend=mend)
        return None
    return value


def printed(node: Node, problems: Problems) -> str | None:
    """Read a line of text that a definition can hold."""
    value = fields.line(node, problems)
    for _, reason in hazards(value or ""):
        problems.add("this text cannot stand in a definition", node.place, why=reason)
        return None
    return value


def _raw(node: Node, problems: Problems) -> tuple[Node, Place]:
    del problems
    return node, node.place


def _values(node: Node, problems: Problems) -> dict[str, tuple[Node, Place]] | None:
    return fields.mapping(_raw, key=variable)(node, problems)


_PACKAGES = fields.record(
    "packages", {"apt": fields.sequence(_apt_package), "python": fields.sequence(_requirement)}
)
_SOURCE = fields.record("a source", {"python": name, "sha256": _sha256}, required=("python",))
_CONTENT: dict[str, fields.Reader[Any]] = {
    "packages": _PACKAGES,
    "sources": fields.sequence(_SOURCE),
    "environment": fields.mapping(printed, key=constant),
    "path": fields.sequence(absolute),
}
_VARIANT = fields.record("a variant", {**_CONTENT, "parameters": _values, "omit": fields.line})
_BOOTSTRAP = fields.record(
    "a bootstrap",
    {
        "agent": fields.choice(("debootstrap", "docker")),
        "release": name,
        "include": fields.sequence(_apt_package),
        "docker": _image,
    },
    required=("agent", "docker"),
)
_PARAMETER = fields.record(
    "a parameter",
    {
        "type": fields.choice(tuple(TYPES)),
        "default": _raw,
        "summary": printed,
        "choices": fields.sequence(fields.text),
        "refused": fields.mapping(fields.line, key=fields.choice(ACCELERATORS)),
    },
    required=("type", "default"),
)
_LAYER = fields.record(
    "layer",
    {
        "summary": printed,
        "version": fields.with_place(fields.line),
        "requires": fields.sequence(name),
        "conflicts": fields.sequence(name),
        "parameters": fields.mapping(fields.with_place(_PARAMETER), key=variable),
        "variants": fields.mapping(_VARIANT, key=fields.choice(ACCELERATORS)),
        "bootstrap": fields.mapping(_BOOTSTRAP, key=fields.choice(ACCELERATORS)),
        "secrets": fields.sequence(name),
        "differs": fields.mapping(fields.line, key=absolute),
        **_CONTENT,
    },
    required=("summary",),
)


def parameter_value(parameter: Parameter, node: Node, problems: Problems) -> Value | None:
    """Read the value of a parameter, as its type and its choices want it."""
    value: Value | None = TYPES[parameter.type](node, problems)
    if value is not None and parameter.choices and value not in parameter.choices:
        known = ", ".join(parameter.choices)
        problems.add(
            f"'{value}' is no choice of '{parameter.name}'", node.place, mend=f"choose of: {known}"
        )
        return None
    return value


def read_recipe(text: str, file: str, problems: Problems, *, stem: str) -> Recipe | None:
    """Read a recipe; ``stem`` is its file's name without the suffix, and becomes its name."""
    root = parse(text, file, problems)
    before = len(problems.found)
    if root is None:
        return None
    values = _RECIPE(root, problems)
    if values is None or len(problems.found) > before:
        return None
    return Recipe(stem, place=root.place, text=text, **values)


def _layer_use(node: Node, problems: Problems) -> LayerUse | None:
    """Read ``name``, or ``name: {parameter: value}``."""
    if not isinstance(node, MappingNode):
        layer = name(node, problems)
        return None if layer is None else LayerUse(layer, node.place)
    if len(node.entries) != 1:
        problems.add(
            "a layer with parameters is written 'name: {parameter: value}'",
            node.place,
            mend="begin each layer on a line of its own with '- '",
        )
        return None
    key, given = node.entries[0]
    layer, values = name(key, problems), _values(given, problems)
    return None if layer is None or values is None else LayerUse(layer, key.place, values)


_RECIPE = fields.record(
    "recipe",
    {"summary": printed, "base": _layer_use, "layers": fields.sequence(_layer_use)},
    required=("summary", "base", "layers"),
)


def read_layer(
    text: str, file: str, problems: Problems, *, stem: str, files: tuple[LayerFile, ...] = ()
) -> Layer | None:
    """Read a layer; ``stem`` is the name of its folder, ``files`` are the others in it."""
    before = len(problems.found)
    _check_script(files, file, problems)
    root = parse(text, file, problems)
    values = _LAYER(root, problems) if root else None
    if values is None or len(problems.found) > before or root is None:
        return None
    parameters = _parameters(values, problems)
    if len(problems.found) > before:
        return None
    return Layer(
        name=stem,
        summary=values["summary"],
        place=root.place,
        requires=values.get("requires", ()),
        conflicts=values.get("conflicts", ()),
        parameters=parameters,
        content=_content(values),
        variants={key: _variant(each) for key, each in values.get("variants", {}).items()},
        bootstrap={key: _bootstrap(each) for key, each in values.get("bootstrap", {}).items()},
        files=tuple(each for each in files if not each.name.startswith("checks/")),
        checks=tuple(each for each in files if each.name.startswith("checks/")),
        secrets=values.get("secrets", ()),
        differs=values.get("differs", {}),
    )


def _check_script(files: tuple[LayerFile, ...], file: str, problems: Problems) -> None:
    for each in files:
        if each.name not in (SCRIPT, COMPILE):
            continue
        path = file.removesuffix("layer.yaml") + each.name
        try:
            text = each.content.decode()
        except UnicodeDecodeError as error:
            problems.add("the script is not UTF-8 text", Place(path), why=str(error))
            return
        for number, reason in hazards(text):
            mend = "write the line so that it begins otherwise, or put the text in a file beside it"
            problems.add(
                "a line of the script cannot stand in a definition",
                Place(path, number),
                why=reason,
                mend=mend,
            )


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
                mend="choose another name",
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
    for field, kind in (("choices", "string"), ("refused", "boolean")):
        if field in declared and declared["type"] != kind:
            problems.add(
                f"'{field}' of '{name}' is for the type {kind} only, not {declared['type']}",
                place,
                mend=f"remove it, or make the parameter a {kind}",
            )


def _content(values: dict[str, Any]) -> Content:
    packages = values.get("packages", {})
    return Content(
        apt=packages.get("apt", ()),
        python=packages.get("python", ()),
        sources=tuple(Source(**each) for each in values.get("sources", ())),
        environment=values.get("environment", {}),
        path=values.get("path", ()),
    )


def _variant(values: dict[str, Any]) -> Variant:
    return Variant(_content(values), values.get("parameters", {}), values.get("omit", ""))


def _bootstrap(values: dict[str, Any]) -> Bootstrap:
    return Bootstrap(
        values["agent"], values.get("release", ""), values.get("include", ()), values["docker"]
    )
