"""Readers that turn a node into a value of the kind that is wanted, noting every problem.

A reader takes a node and the ``Problems`` to add to, and returns the value, or ``None`` after
it noted why there is none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from lumicontainer.core.nodes import Mapping as MappingNode
from lumicontainer.core.nodes import Node, Scalar
from lumicontainer.core.nodes import Sequence as SequenceNode
from lumicontainer.errors import Place, Problems, did_you_mean

T = TypeVar("T")
Reader: TypeAlias = Callable[[Node, Problems], T | None]
Schema: TypeAlias = dict[str, Any]
"""A JSON Schema (draft 2020-12) of what a reader accepts."""

# What YAML 1.1 would turn into something other than text.
_BOOLEAN = re.compile(r"(?i:true|false|yes|no|on|off|y|n)\Z")
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?\Z")
_OTHER = re.compile(r"(~|(?i:null)|0[xob][0-9a-fA-F_]+|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}.*)?\Z")
_MAPPING = "write 'key: value' lines, or {key: value}"
_NO_TEXT = re.compile("[\0\ud800-\udfff]")
_INTEGER = re.compile(r"-?(0|[1-9][0-9]*)\Z")


def described(schema: Schema) -> Callable[[Reader[T]], Reader[T]]:
    """Return a decorator that gives a reader its JSON Schema."""

    def decorate(reader: Reader[T]) -> Reader[T]:
        vars(reader)["json_schema"] = schema
        return reader

    return decorate


def schema_of(reader: Reader[Any]) -> Schema:
    """Return the JSON Schema of what a reader accepts; an empty one accepts anything."""
    schema: Schema = vars(reader).get("json_schema", {})
    return schema


def kind_of(node: Node) -> str:
    """Return what a node is, in words for a message."""
    if isinstance(node, MappingNode):
        return "a mapping"
    return "a list" if isinstance(node, SequenceNode) else f"'{node.text}'"


def _scalar(node: Node, problems: Problems, wanted: str) -> Scalar | None:
    if isinstance(node, Scalar):
        return node
    problems.add(f"{wanted} is wanted here, not {kind_of(node)}", node.place)
    return None


@described({"type": "string"})
def text(node: Node, problems: Problems) -> str | None:
    """Read text; an unquoted word that YAML takes for something else must be quoted."""
    scalar = _scalar(node, problems, "text")
    if scalar is None:
        return None
    if scalar.plain and not scalar.text:
        problems.add("expected text, got nothing", scalar.place, hint='write "" or the text')
        return None
    if scalar.plain and needs_quotes(scalar.text):
        problems.add(
            f"text is wanted here, and YAML reads an unquoted {scalar.text or 'nothing'} otherwise",
            scalar.place,
            hint=f'write "{scalar.text}"',
        )
        return None
    if _NO_TEXT.search(scalar.text):
        hint = "remove it, or encode the bytes, such as in base64"
        problems.add("text cannot hold NUL or half of a surrogate pair", scalar.place, hint=hint)
        return None
    return scalar.text


def needs_quotes(text: str) -> bool:
    """Return whether a version of YAML reads a word without quotes as something else than text."""
    return any(form.match(text) for form in (_BOOLEAN, _NUMBER, _OTHER))


@described({"type": "string", "pattern": r"^[^\n]*\S[^\n]*$"})
def line(node: Node, problems: Problems) -> str | None:
    """Read one line of text."""
    value = text(node, problems)
    if value is not None and (not value.isprintable() or not value.strip()):
        problems.add("one line of printable text is wanted here", node.place)
        return None
    return value


@described({"type": "boolean"})
def boolean(node: Node, problems: Problems) -> bool | None:
    """Read ``true`` or ``false``."""
    scalar = _scalar(node, problems, "true or false")
    if scalar is None:
        return None
    if scalar.plain and scalar.text in ("true", "false"):
        return scalar.text == "true"
    problems.add(
        f"true or false is wanted here, not {kind_of(node)}",
        scalar.place,
        hint="write true or false, without quotes",
    )
    return None


@described({"type": "integer"})
def integer(node: Node, problems: Problems) -> int | None:
    """Read a decimal integer."""
    scalar = _scalar(node, problems, "a whole number")
    if scalar is None:
        return None
    if scalar.plain and _INTEGER.match(scalar.text):
        return int(scalar.text)
    problems.add(
        f"a whole number is wanted here, not {kind_of(node)}",
        scalar.place,
        hint="write decimal digits, without quotes or a leading zero",
    )
    return None


def matching(pattern: str, wanted: str) -> Reader[str]:
    """Return a reader of text that must match ``pattern`` from end to end."""

    @described({"type": "string", "pattern": f"^(?:{pattern})$"})
    def read(node: Node, problems: Problems) -> str | None:
        value = text(node, problems)
        if value is not None and not re.fullmatch(pattern, value):
            problems.add(f"{wanted} is wanted here, not '{value}'", node.place)
            return None
        return value

    return read


def choice(known: Sequence[str]) -> Reader[str]:
    """Return a reader of one of the known words."""

    @described({"enum": [*known]})
    def read(node: Node, problems: Problems) -> str | None:
        value = text(node, problems)
        if value is not None and value not in known:
            problems.add(f"'{value}' is not known", node.place, hint=did_you_mean(value, known))
            return None
        return value

    return read


def sequence(item: Reader[T]) -> Reader[tuple[T, ...]]:
    """Return a reader of a list whose items ``item`` reads."""

    @described({"type": "array", "items": schema_of(item)})
    def read(node: Node, problems: Problems) -> tuple[T, ...] | None:
        if not isinstance(node, SequenceNode):
            problems.add(
                f"a list is wanted here, not {kind_of(node)}",
                node.place,
                hint="write '- item' lines, or [item, item]",
            )
            return None
        values = [item(each, problems) for each in node.items]
        return tuple(value for value in values if value is not None)

    return read


def mapping(value: Reader[T], *, key: Reader[str] = text) -> Reader[dict[str, T]]:
    """Return a reader of a mapping with keys of the user's choice."""

    @described(
        {
            "type": "object",
            "propertyNames": schema_of(key),
            "additionalProperties": schema_of(value),
        }
    )
    def read(node: Node, problems: Problems) -> dict[str, T] | None:
        if not isinstance(node, MappingNode):
            what = f"a mapping is wanted here, not {kind_of(node)}"
            problems.add(what, node.place, hint=_MAPPING)
            return None
        result = {}
        for name_node, value_node in node.entries:
            name, item = key(name_node, problems), value(value_node, problems)
            if name is not None and item is not None:
                result[name] = item
        return result

    return read


def record(
    what: str, keys: Mapping[str, Reader[Any]], *, required: Sequence[str] = ()
) -> Reader[dict[str, Any]]:
    """Return a reader of a mapping with known keys; ``what`` names it in messages."""

    @described(
        {
            "title": what,
            "type": "object",
            "properties": {name: schema_of(reader) for name, reader in keys.items()},
            "required": [*required],
            "additionalProperties": False,
        }
    )
    def read(node: Node, problems: Problems) -> dict[str, Any] | None:
        if not isinstance(node, MappingNode):
            known = ", ".join(sorted(keys))
            wrong = f"{what} must be a mapping, not {kind_of(node)}"
            problems.add(wrong, node.place, why=f"its keys are {known}", hint=_MAPPING)
            return None
        result: dict[str, Any] = {}
        for name, value in node.entries:
            reader = keys.get(name.text)
            if reader is None:
                why = f"its keys are {', '.join(sorted(keys))}"
                hint = did_you_mean(name.text, keys)
                problems.add(f"{what} has no key '{name.text}'", name.place, why=why, hint=hint)
            else:
                result[name.text] = reader(value, problems)
        present = {name.text for name, _ in node.entries}
        for missing in required:
            if missing not in present:
                problems.add(f"{what} needs '{missing}'", node.place, hint=f"add '{missing}: …'")
        return result

    return read


def with_place(reader: Reader[T]) -> Reader[tuple[T, Place]]:
    """Return a reader that gives the place of the value with it."""

    @described(schema_of(reader))
    def read(node: Node, problems: Problems) -> tuple[T, Place] | None:
        value = reader(node, problems)
        return None if value is None else (value, node.place)

    return read
