"""The records of an image, and the one reader of them: parse, then hold against a schema.

An image comes from anywhere, and its bytes may be damaged. What this reader returns has the types
that its schema says, is nested at most 32 deep, and can be written as UTF-8 and as JSON. Entries
that a schema does not name are let through: a later lumicontainer may add some.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from lumicontainer.core.model import Bind
from lumicontainer.core.plan.plan import HOME
from lumicontainer.errors import InputError, Problem
from lumicontainer.image import inspect as images
from lumicontainer.inside.verify.options import LEVELS

Schema: TypeAlias = Callable[[Any, str], None]
"""Raises ``RecordError`` where a value is not of its form; gets the value, and where it stands."""

_DEPTH = 32
_NAMES = {
    dict: "a mapping",
    list: "a list",
    str: "text",
    bool: "true or false",
    int: "a number",
    float: "a number",
    type(None): "null",
}


class RecordError(ValueError):
    """Say what in a record is not of its form."""


def text(value: Any, where: str) -> None:
    """Expect text."""
    _expect(isinstance(value, str), "text", value, where)


def number(value: Any, where: str) -> None:
    """Expect a number."""
    _expect(type(value) in (int, float), "a number", value, where)


def scalar(value: Any, where: str) -> None:
    """Expect a value as a parameter has one."""
    found = value is None or isinstance(value, str | bool | int | float)
    _expect(found, "a text, number, true or false", value, where)


def choice(*known: str) -> Schema:
    """Return a schema of one of some words."""

    def read(value: Any, where: str) -> None:
        text(value, where)
        if value not in known:
            raise RecordError(f"{where}: expected one of {', '.join(known)}, got {value[:40]!r}")

    return read


def flag(value: Any, where: str) -> None:
    """Expect true or false."""
    _expect(isinstance(value, bool), "true or false", value, where)


def row(*schemas: Schema) -> Schema:
    """Return a schema of a list of so many values, each of a form of its own."""

    def read(value: Any, where: str) -> None:
        _expect(isinstance(value, list), "a list", value, where)
        if len(value) != len(schemas):
            raise RecordError(f"{where}: expected {len(schemas)} values, got {len(value)}")
        for position, (schema, each) in enumerate(zip(schemas, value, strict=True)):
            schema(each, f"{where}[{position}]")

    return read


def optional(schema: Schema) -> Schema:
    """Return a schema that allows null too."""
    return lambda value, where: None if value is None else schema(value, where)


def sequence(schema: Schema) -> Schema:
    """Return a schema of a list."""

    def read(value: Any, where: str) -> None:
        _expect(isinstance(value, list), "a list", value, where)
        for position, each in enumerate(value):
            schema(each, f"{where}[{position}]")

    return read


def mapping(schema: Schema) -> Schema:
    """Return a schema of a mapping of any names."""

    def read(value: Any, where: str) -> None:
        _expect(isinstance(value, dict), "a mapping", value, where)
        for name, each in value.items():
            schema(each, _below(where, name))

    return read


def record(required: Mapping[str, Schema], allowed: Mapping[str, Schema] | None = None) -> Schema:
    """Return a schema of a mapping of known names."""

    def read(value: Any, where: str) -> None:
        _expect(isinstance(value, dict), "a mapping", value, where)
        for name in required:
            if name not in value:
                raise RecordError(f"{_below(where, name)} is not there")
        for name, schema in {**required, **(allowed or {})}.items():
            if name in value:
                schema(value[name], _below(where, name))

    return read


def _below(where: str, name: str) -> str:
    return f"{where}.{name[:60]}" if where else name[:60]


def _expect(holds: bool, wanted: str, value: Any, where: str) -> None:
    if not holds:
        raise RecordError(f"{where or 'the record'}: expected {wanted}, got {_NAMES[type(value)]}")


_BIND = record({"path": text}, {"reason": text, "source": text})
_LAYER = record(
    {"parameters": mapping(scalar), "origins": mapping(text), "version": scalar},
    {"environment": mapping(text), "provides": mapping(scalar), "path": sequence(text)},
)
RESOLVED = record(
    {
        "recipe": text,
        "summary": text,
        "platform": record({"name": text, "accelerator": text}),
        "layers": mapping(_LAYER),
        "omitted": mapping(text),
    },
    {
        "profile": text,
        "base": mapping(text),
        "binds": sequence(_BIND),
        "host_libraries": sequence(_BIND),
    },
)
CHECKS = sequence(
    record(
        {"name": text, "summary": text, "hint": text, "file": text, "timeout_seconds": number}
        | {"level": choice(*LEVELS)},
        {"runs": text, "needs": mapping(scalar), "start_modes": sequence(text)}
        | {"thresholds": mapping(mapping(scalar))},
    )
)
_ELF = record(
    {"soname": text, "requires": sequence(row(text, text, flag))}
    | {"undefined": sequence(row(text, text, text, flag))}
    | dict.fromkeys(("needed", "rpath", "runpath", "provides", "defined"), sequence(text))
)
ANSWER = record(
    {"folders": sequence(text), "libraries": mapping(record({"path": text, "elf": _ELF}))}
)
"""What a program in the image says of its libraries (``elf.loader.describe``)."""
PACKAGES = mapping(mapping(text))
METADATA = record(
    {},
    {
        "data": optional(
            record(
                {},
                {
                    "attributes": optional(
                        record({}, {"labels": optional(mapping(scalar)), "deffile": optional(text)})
                    )
                },
            )
        )
    },
)
"""What the engines write: of an image of theirs any of it may be null."""


def parse(content: bytes, schema: Schema) -> Any:
    """Return what a record holds; raise ``RecordError`` where it is not JSON of that form."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        said = "it is nested too deep" if isinstance(error, RecursionError) else str(error)
        raise RecordError(f"it is not JSON: {said[:200]}") from error
    _check_plain(value)
    schema(value, "")
    return value


def _check_plain(root: Any) -> None:
    """Raise ``RecordError`` where a value cannot be written again, or is nested too deep."""
    waiting: list[tuple[Any, int]] = [(root, 0)]
    while waiting:
        value, depth = waiting.pop()
        if depth > _DEPTH:
            raise RecordError(f"it is nested more than {_DEPTH} deep")
        if isinstance(value, dict):
            waiting += [(each, depth + 1) for pair in value.items() for each in pair]
        elif isinstance(value, list):
            waiting += [(each, depth + 1) for each in value]
        elif isinstance(value, float) and not math.isfinite(value):
            raise RecordError("it holds a number that is not finite")
        elif isinstance(value, str) and not value.isascii():
            _decoded(value.encode("utf-8", "surrogatepass"))


def _decoded(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise RecordError("it holds text that is not UTF-8") from error


class Metadata(NamedTuple):
    """Hold what an image's own metadata object says, as the engines' ``inspect`` shows it."""

    labels: Mapping[str, Any] = {}
    definition: str | None = None


def metadata(image: Path) -> Metadata:
    """Return the metadata of an image; raise ``InputError`` where they are damaged."""
    content = images.metadata(image)
    if content is None:
        return Metadata()
    data = _read(image, content, METADATA, images.METADATA)
    found = (data.get("data") or {}).get("attributes") or {}
    return Metadata(found.get("labels") or {}, found.get("deffile"))


def labels(image: Path) -> Mapping[str, Any]:
    """Return the labels of an image."""
    return metadata(image).labels


def key(image: Path) -> str:
    """Return the key of the plan that an image was built from, or nothing."""
    return str(labels(image).get(images.KEY_LABEL, ""))


def checked(image: Path) -> bool:
    """Tell whether an image was built with its checks, and not with ``--no-verify``."""
    return labels(image).get(images.CHECKED_LABEL) != "no"


def resolved(image: Path) -> Mapping[str, Any]:
    """Return the decided values of an image; raise ``InputError`` where it has none."""
    found: Mapping[str, Any] = _of(image, "resolved.json", RESOLVED)
    return found


def checks(image: Path) -> Sequence[Mapping[str, Any]]:
    """Return what the checks of an image say; raise ``InputError`` where it has none."""
    found: Sequence[Mapping[str, Any]] = _of(image, "checks.json", CHECKS)
    return found


def packages(image: Path) -> Mapping[str, Mapping[str, str]]:
    """Return the versions of installed packages by kind; raise ``InputError`` where none are."""
    found: Mapping[str, Mapping[str, str]] = _of(image, "packages.json", PACKAGES)
    return found


def recipe(image: Path) -> str:
    """Return the recipe that an image was built from; raise ``InputError`` where it has none."""
    name = "recipe.yaml"
    try:
        return _decoded(images.recorded(image, name))
    except RecordError as error:
        raise _damaged(image, f"{HOME}/{name}", str(error)) from error


def binds(data: Mapping[str, Any], name: str = "binds") -> tuple[Bind, ...]:
    """Return, of decided values, the ``binds`` or the ``host_libraries``."""
    rows = data.get(name, ())
    return tuple(Bind(row["path"], row.get("reason", ""), row.get("source", "")) for row in rows)


def answer(image: Path, said: bytes) -> Mapping[str, Any]:
    """Return what a program in an image said of its libraries; raise ``InputError`` for rubbish."""
    found: Mapping[str, Any] = _read(image, said, ANSWER, "what python3 in it says of libraries")
    return found


def _of(image: Path, name: str, schema: Schema) -> Any:
    return _read(image, images.recorded(image, name), schema, f"{HOME}/{name}")


def _read(image: Path, content: bytes, schema: Schema, name: str) -> Any:
    try:
        return parse(content, schema)
    except RecordError as error:
        raise _damaged(image, name, str(error)) from error


def _damaged(image: Path, name: str, why: str) -> InputError:
    hint = "lumicontainer inspect --check finds changed bytes; build the image again"
    what = "a record of the image is damaged"
    return InputError(Problem(what, f"{image}: {name}", why, hint))
