"""Readers that turn a node into a value of the expected kind, and note every problem.

A reader takes a node and the ``Problems`` to add to. It returns the value, or ``None`` after it
noted a problem.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

from lumicontainer.core.habits import habit_hint
from lumicontainer.core.yaml.nodes import Mapping as MappingNode
from lumicontainer.core.yaml.nodes import Node, Scalar
from lumicontainer.core.yaml.nodes import Sequence as SequenceNode
from lumicontainer.errors import Fault, Place, Problems, did_you_mean

T = TypeVar("T")
Reader: TypeAlias = Callable[[Node, Problems], T | None]
Schema: TypeAlias = dict[str, Any]
"""A JSON Schema (draft 2020-12) of what a reader accepts."""

# What YAML 1.1 would turn into something other than text.
_BOOLEAN = re.compile(r"(?i:true|false|yes|no|on|off|y|n)\Z")
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?\Z")
_OTHER = re.compile(
    r"(~|(?i:null)|0x[0-9a-fA-F_]+|0o[0-7_]+|0b[01_]+|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}.*)?\Z"
)
_KINDS = ((_BOOLEAN, "a boolean"), (_NUMBER, "a number"))
_NO_TEXT = re.compile("[\0\ud800-\udfff]")
MAPPING_HINT = "write 'key: value' lines, or {key: value}"


class Text(str):
    """Hold text of a document with its place there."""

    place: Place

    @classmethod
    def at(cls, place: Place, value: str) -> "Text":
        """Return a text with its place."""
        text = cls(value)
        text.place = place
        return text


def with_schema(schema: Schema | Callable[[], Schema]) -> Callable[[Reader[T]], Reader[T]]:
    """Return a decorator that gives a reader its JSON Schema, or what makes it."""

    def decorate(reader: Reader[T]) -> Reader[T]:
        vars(reader)["json_schema"] = schema
        return reader

    return decorate


def schema_of(reader: Reader[Any]) -> Schema:
    """Return the JSON Schema of what a reader accepts; an empty one accepts anything."""
    schema: Schema | Callable[[], Schema] = vars(reader).get("json_schema", {})
    return schema() if callable(schema) else schema


def checked(reader: Reader[T], fault: Callable[[T], Fault | None], **schema: Any) -> Reader[T]:
    """Return a reader that refuses a value with a fault; ``schema`` is added to the reader's."""

    @with_schema(lambda: {**schema_of(reader), **schema})
    def read(node: Node, problems: Problems) -> T | None:
        value = reader(node, problems)
        wrong = None if value is None else fault(value)
        if wrong is None:
            return value
        problems.add(wrong.what, node.place, why=wrong.why, hint=wrong.hint)
        return None

    return read


def node_kind(node: Node) -> str:
    """Return what a node is, in words for a message."""
    if isinstance(node, MappingNode):
        return "a mapping"
    if isinstance(node, SequenceNode):
        return "a list"
    return f"'{node.text}'" if node.text or not node.plain else "nothing"


@with_schema({"type": "string"})
def text(node: Node, problems: Problems) -> Text | None:
    """Read text; an unquoted word that YAML takes for something else must be quoted."""
    if not isinstance(node, Scalar):
        problems.add(f"expected text, got {node_kind(node)}", node.place)
        return None
    fault = _no_text(node)
    if fault is None:
        return Text.at(node.place, node.text)
    problems.add(fault.what, node.place, hint=fault.hint)
    return None


def _no_text(node: Scalar) -> Fault | None:
    if node.plain and not node.text:
        return Fault("expected text, got nothing", hint='write "" or the text')
    if node.plain and needs_quotes(node.text):
        kind = next((name for form, name in _KINDS if form.match(node.text)), "another type")
        what = f"expected text, but YAML reads {node.text} without quotes as {kind}"
        return Fault(what, hint=f'write "{node.text}"')
    if _NO_TEXT.search(node.text):
        hint = "remove it, or encode the bytes, such as in base64"
        return Fault("text cannot hold NUL or half of a surrogate pair", hint=hint)
    return None


def needs_quotes(text: str) -> bool:
    """Return whether a version of YAML reads a word without quotes as something else than text."""
    return any(form.match(text) for form in (_BOOLEAN, _NUMBER, _OTHER))


def _no_line(value: str) -> Fault | None:
    good = value.isprintable() and value.strip()
    return None if good else Fault("expected one line of printable text")


_SIZE = re.compile(r"([1-9][0-9]{0,5})([MGT])")


@with_schema({"type": "string", "pattern": rf"^{_SIZE.pattern}$"})
def size(node: Node, problems: Problems) -> int | None:
    """Read a size such as ``20G``; return it in bytes."""
    if isinstance(node, Scalar) and (parts := _SIZE.fullmatch(node.text)):
        return int(parts[1]) << {"M": 20, "G": 30, "T": 40}[parts[2]]
    problems.add(f"expected a size, got {node_kind(node)}", node.place, hint="write it like 20G")
    return None


_DURATION = re.compile(r"([1-9][0-9]{0,3})([dhm])")


@with_schema({"type": "string", "pattern": rf"^{_DURATION.pattern}$"})
def duration(node: Node, problems: Problems) -> int | None:
    """Read a time such as ``2d``, ``3h`` or ``30m``; return it in minutes."""
    if isinstance(node, Scalar) and (parts := _DURATION.fullmatch(node.text)):
        return int(parts[1]) * {"d": 1440, "h": 60, "m": 1}[parts[2]]
    hint = "write it like 2d, 3h or 30m"
    problems.add(f"expected a time, got {node_kind(node)}", node.place, hint=hint)
    return None


line = checked(text, _no_line, pattern=r"^[^\n]*\S[^\n]*$")


def _word(
    expected: str, form: str, value: Callable[[str], T], hint: str, **schema: Any
) -> Reader[T]:

    @with_schema(schema)
    def read(node: Node, problems: Problems) -> T | None:
        if isinstance(node, Scalar) and node.plain and re.fullmatch(form, node.text):
            return value(node.text)
        problems.add(f"expected {expected}, got {node_kind(node)}", node.place, hint=hint)
        return None

    return read


boolean = _word(
    "true or false",
    "true|false",
    "true".__eq__,
    "write true or false, without quotes",
    type="boolean",
)
integer = _word(
    "a whole number",
    "-?(0|[1-9][0-9]*)",
    int,
    "write decimal digits, without quotes or a leading zero",
    type="integer",
)
number = _word(
    "a number", r"[0-9]+(\.[0-9]+)?", float, "write it as 125 or 23.75", type="number", minimum=0
)


def exact_integer(value: int) -> Reader[int]:
    """Return a reader that accepts one number."""
    return _word(
        str(value), str(value), int, f"write {value}, without quotes", type="integer", const=value
    )


def matching(
    pattern: str, form: str, place: str = "", shown: Callable[[str], str] = str
) -> Reader[Text]:
    """Return a reader of text that must match ``pattern`` from end to end.

    ``place`` is the key of the hint in ``habits``. ``shown`` removes what no message may show.
    """

    def fault(value: str) -> Fault | None:
        good = re.fullmatch(pattern, value)
        wrong = Fault(f"expected {form}, got '{shown(value)}'", hint=habit_hint(place, value))
        return None if good else wrong

    return checked(text, fault, pattern=f"^(?:{pattern})$")


def choice(known: Sequence[str], kind: str) -> Reader[Text]:
    """Return a reader of one of the known words; ``kind`` is what messages call the word."""

    def fault(value: str) -> Fault | None:
        hint = "" if value in known else did_you_mean(value, known)
        return None if value in known else Fault(f"invalid {kind} '{value}'", hint=hint)

    read = checked(text, fault)
    return with_schema({"enum": [*known]})(read)


def sequence(item: Reader[T]) -> Reader[tuple[T, ...]]:
    """Return a reader of a list whose items ``item`` reads."""

    @with_schema(lambda: {"type": "array", "items": schema_of(item)})
    def read(node: Node, problems: Problems) -> tuple[T, ...] | None:
        if not isinstance(node, SequenceNode):
            what = f"expected a list, got {node_kind(node)}"
            hint = "write '- item' lines, or [item, item]"
            problems.add(what, node.place, hint=hint)
            return None
        values = [item(each, problems) for each in node.items]
        return tuple(value for value in values if value is not None)

    return read


def mapping(value: Reader[T], *, key: Reader[Any] = text) -> Reader[dict[str, T]]:
    """Return a reader of a mapping with keys of the user's choice."""

    @with_schema(
        lambda: {
            "type": "object",
            "propertyNames": schema_of(key),
            "additionalProperties": schema_of(value),
        }
    )
    def read(node: Node, problems: Problems) -> dict[str, T] | None:
        if not isinstance(node, MappingNode):
            what = f"expected a mapping, got {node_kind(node)}"
            problems.add(what, node.place, hint=MAPPING_HINT)
            return None
        result: dict[str, T] = {}
        for name_node, value_node in node.entries:
            name, item = key(name_node, problems), value(value_node, problems)
            if name is not None and item is not None:
                result[name] = item
        return result

    return read


def with_place(reader: Reader[T]) -> Reader[tuple[T, Place]]:
    """Return a reader that gives the place of the value with it."""

    @with_schema(lambda: schema_of(reader))
    def read(node: Node, problems: Problems) -> tuple[T, Place] | None:
        value = reader(node, problems)
        return None if value is None else (value, node.place)

    return read
