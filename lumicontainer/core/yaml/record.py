"""Read mappings with known keys: a named tuple is the table of its keys.

A field is a key if its type has a reader: ``Annotated[str, reader]``, a number, a boolean, or
tuples and mappings of these. The text below the field describes it, in the JSON Schema and in the
reference of the manual.
"""

import ast
import inspect
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from types import UnionType
from typing import Annotated, Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from lumicontainer.core.habits import habit_hint
from lumicontainer.core.yaml import readers
from lumicontainer.core.yaml.nodes import Mapping as MappingNode
from lumicontainer.core.yaml.nodes import Node
from lumicontainer.core.yaml.readers import Reader, Schema, node_kind, schema_of, with_schema
from lumicontainer.errors import Problems, near_hint

R = TypeVar("R")


SAME_LEVEL = "the keys of this record stand next to its owner's"
"""Stands among the marks of a field's type."""
_PLAIN: Mapping[Any, Reader[Any]] = {
    bool: readers.boolean,
    int: readers.integer,
    float: readers.number,
}


class _Key(NamedTuple):
    """Hold how a key is read; ``part`` is the field of the record that it belongs to."""

    part: str
    field: str
    reader: Reader[Any]
    made: Any
    required: bool


def table_of(what: str, made: Any) -> Reader[dict[str, Any]]:
    """Return a reader of a mapping with the keys of ``made``; ``what`` names it in messages."""
    keys = dict(_keys(made))
    known = f"its keys are {', '.join(sorted(keys))}"
    required = [name for name, key in keys.items() if key.required]

    @with_schema(lambda: _schema(what, keys, required))
    def read(node: Node, problems: Problems) -> dict[str, Any] | None:
        if not isinstance(node, MappingNode):
            wrong = f"{what} must be a mapping, not {node_kind(node)}"
            problems.add(wrong, node.place, why=known, hint=readers.MAPPING_HINT)
            return None
        values: dict[str, Any] = {}
        for name, value in node.entries:
            if key := keys.get(name.text):
                values[name.text] = key.reader(value, problems)
            else:
                near = near_hint(name.text, keys)
                hint = near or habit_hint(f"key of a {what}", name.text)
                problems.add(f"{what} has no key '{name.text}'", name.place, why=known, hint=hint)
        for missing in required:
            if missing not in values:
                problems.add(f"{what} needs '{missing}'", node.place, hint=f"add '{missing}: …'")
        return {name: value for name, value in values.items() if value is not None}

    return read


def fields_of(what: str, made: Callable[..., R]) -> Reader[R]:
    """Return a reader of the named tuple ``made``; ``what`` names it in messages.

    A field ``place`` gets the place of the mapping. A field that is not in the document, or has a
    problem, has its default, or None.
    """
    reader, keys = table_of(what, made), dict(_keys(made))
    parts = {key.part: key.made for key in keys.values() if key.part}

    @with_schema(lambda: schema_of(reader))
    def read(node: Node, problems: Problems) -> R | None:
        fields = reader(node, problems)
        if fields is None:
            return None
        values: dict[str, dict[str, Any]] = {part: {} for part in ("", *parts)}
        for name, value in fields.items():
            values[keys[name].part][keys[name].field] = value
        own = values.pop("") | {part: _new(parts[part], each) for part, each in values.items()}
        result: R = _new(made, {"place": node.place, **own})
        return result

    return read


def _new(made: Any, values: Mapping[str, Any]) -> Any:
    known = {name: value for name, value in values.items() if name in made._fields}
    return made(**{**dict.fromkeys(made._fields), **made._field_defaults, **known})


def _keys(made: Any, part: str = "") -> Iterator[tuple[str, _Key]]:
    for field, hint in get_type_hints(made, include_extras=True).items():
        marks = getattr(hint, "__metadata__", ())
        if SAME_LEVEL in marks:
            yield from _keys(hint.__origin__, field)
        elif reader := _reader(hint):
            name = next((mark for mark in marks if isinstance(mark, str)), field)
            yield name, _Key(part, field, reader, made, field not in made._field_defaults)


def _reader(hint: Any) -> Reader[Any] | None:
    """Return the reader of a type; None if no key has it."""
    origin = get_origin(hint)
    if origin is Annotated:
        marked: Reader[Any] = next(mark for mark in hint.__metadata__ if callable(mark))
        return marked
    inner = [_reader(each) for each in get_args(hint)]
    if origin is tuple and inner[0]:
        return readers.sequence(inner[0])
    if origin is Mapping and inner[0] and inner[1]:
        return readers.mapping(inner[1], key=inner[0])
    return inner[0] if origin is UnionType else _PLAIN.get(hint)


def _schema(what: str, keys: Mapping[str, _Key], required: list[str]) -> Schema:
    return {
        "title": what,
        "type": "object",
        "properties": {name: _property(key) for name, key in keys.items()},
        "required": required,
        "additionalProperties": False,
    }


def _property(key: _Key) -> Schema:
    default = key.made._field_defaults.get(key.field)
    # An empty text, or a count or size of 0, stands for a key that is left out.
    shown = isinstance(default, bool) or (isinstance(default, (int, str)) and bool(default))
    text = {"description": _descriptions(key.made)[key.field]}
    return {**schema_of(key.reader), **text, **({"default": default} if shown else {})}


def _descriptions(made: Any) -> dict[str, str]:
    (body,) = (each.body for each in ast.parse(inspect.getsource(made)).body)  # type: ignore[attr-defined]
    descriptions = {}
    for field, text in pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
            descriptions[ast.unparse(field.target)] = " ".join(ast.literal_eval(text.value).split())
    return descriptions
