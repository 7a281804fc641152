"""Read YAML text into nodes that know their place, and refuse what would surprise.

YAML 1.1 reads an unquoted ``no`` as false, ``3.10`` as 3.1 and ``0755`` as 493. Here a plain
scalar keeps its text until a reader (see ``readers``) says what it must be. Aliases, tags,
duplicate keys, several documents, and documents that are too large or too deep are refused.
"""

import re
from collections.abc import Iterator
from typing import Any, TypeVar

import yaml

from lumicontainer.constants import FORMAT
from lumicontainer.core.yaml.nodes import Mapping, Node, Scalar, Sequence
from lumicontainer.core.yaml.readers import Reader
from lumicontainer.errors import Place, Problems

T = TypeVar("T")

MAX_BYTES = 1 << 20
MAX_DEPTH = 20
MAX_NODES = 20_000
_HINTS = {"mapping values are not allowed in this context": "quote text that holds ': '"}
"""The hint for a line, by what the parser calls wrong."""


class _Composer:
    def __init__(self, events: Iterator[Any], file: str, problems: Problems) -> None:
        self.events = events
        self.file = file
        self.problems = problems
        self.nodes = 0

    def place(self, event: Any) -> Place:
        mark = event.start_mark
        return Place(self.file, mark.line + 1, mark.column + 1)

    def refuse(self, what: str, event: Any, hint: str) -> None:
        place = self.place(event)
        self.problems.add(what, place, hint=hint)
        raise _RefusedError

    def node(self, event: Any, depth: int = 0) -> Node:
        self.nodes += 1
        if self.nodes > MAX_NODES or depth > MAX_DEPTH:
            limit = f"at most {MAX_NODES} values, nested at most {MAX_DEPTH} deep"
            self.refuse("the document is too large or nested too deep", event, limit)
        if event.anchor is not None:
            self.refuse("anchors and aliases are refused", event, "write the value out")
        if event.tag is not None:
            self.refuse(f"the tag '{event.tag}' is refused", event, "leave the tag out")
        kind = type(event).__name__
        if kind == "ScalarEvent":
            return Scalar(self.place(event), event.value, event.implicit[0])
        if kind == "SequenceStartEvent":
            return Sequence(self.place(event), tuple(self.items(depth)))
        return self.mapping(event, depth)

    def items(self, depth: int) -> Iterator[Node]:
        for event in self.events:
            if type(event).__name__ == "SequenceEndEvent":
                return
            yield self.node(event, depth + 1)

    def mapping(self, start: Any, depth: int) -> Mapping:
        entries: dict[str, tuple[Scalar, Node]] = {}
        places: dict[str, Place] = {}
        for event in self.events:
            if type(event).__name__ == "MappingEndEvent":
                break
            key = self.node(event, depth + 1)
            value = self.node(next(self.events), depth + 1)
            if not isinstance(key, Scalar):
                self.problems.add("a key must be a word", key.place)
            else:
                what = f"duplicate key '{key.text}'"
                self.problems.twice(what, key.text, key.place, places)
                entries.setdefault(key.text, (key, value))
        return Mapping(self.place(start), tuple(entries.values()))


class _RefusedError(Exception):
    """Stop reading a document of which a problem was noted."""


def read_document(reader: Reader[T], text: str, file: str, problems: Problems) -> T | None:
    """Return what a reader makes of a document, or None if a problem was noted."""
    before = len(problems.noted)
    root = parse_yaml(text, file, problems)
    if root and not note_newer_format(root, problems):
        value = reader(root, problems)
        return value if len(problems.noted) == before else None
    return None


def note_newer_format(root: Node, problems: Problems) -> bool:
    """Note that a document has a newer format, whose keys may be unknown; return whether it has."""
    entries = root.entries if isinstance(root, Mapping) else ()
    for name, value in entries:
        newer = isinstance(value, Scalar) and re.fullmatch("[1-9][0-9]{0,8}", value.text)
        if name.text == "format" and newer and int(newer[0]) > FORMAT:
            what = f"this lumicontainer reads format {FORMAT}, and the document has {newer[0]}"
            problems.add(what, value.place, hint="install a newer version of lumicontainer")
            return True
    return False


def parse_yaml(text: str, file: str, problems: Problems) -> Node | None:
    """Return the root node of ``text``, or None if a problem was noted."""
    if len(text.encode("utf-8", "surrogateescape")) > MAX_BYTES:
        problems.add("the document is too large", Place(file), hint=f"at most {MAX_BYTES} bytes")
        return None
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    before = len(problems.noted)
    try:
        root = _compose(iter(loader(text).get_event, None), file, problems)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Place(file, mark.line + 1, mark.column + 1) if mark else Place(file)
        if not _note_tab(text, place, problems):
            why = error.problem or ""
            hint = _HINTS.get(why, "correct the line")
            problems.add("this is not YAML", place, why=why, hint=hint)
        return None
    except yaml.YAMLError as error:
        _note_character(text, file, str(error).splitlines()[0], problems)
        return None
    except _RefusedError:
        return None
    return root if len(problems.noted) == before else None


def _note_character(text: str, file: str, why: str, problems: Problems) -> None:
    # The error has a position too, in bytes or in characters as the parser counts.
    match = yaml.reader.Reader.NON_PRINTABLE.search(text)
    before = text[: match.start()] if match else ""
    place = Place(file, before.count("\n") + 1, len(before.rpartition("\n")[2]) + 1)
    hint = "remove the control character"
    problems.add("this is not YAML", place, why=why, hint=hint)


def _note_tab(text: str, place: Place, problems: Problems) -> bool:
    lines = text.split("\n")
    line = lines[place.line - 1] if place.line <= len(lines) else ""
    begin = len(line) - len(line.lstrip(" \t-?:"))
    if "\t" not in line[:begin]:
        return False
    at = place._replace(column=line.index("\t") + 1)
    why = "YAML does not allow tabs for indentation"
    problems.add("tab found", at, why=why, hint="replace it with spaces")
    return True


def _compose(events: Iterator[Any], file: str, problems: Problems) -> Node | None:
    composer = _Composer(events, file, problems)
    documents = []
    for event in events:
        if type(event).__name__ == "DocumentStartEvent":
            documents.append((event, composer.node(next(events))))
    if not documents:
        problems.add("the document is empty", Place(file))
        return None
    if len(documents) > 1:
        place = composer.place(documents[1][0])
        problems.add("expected one YAML document", place, hint="remove what follows '---'")
        return None
    return documents[0][1]
