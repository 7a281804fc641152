"""Evaluate the words of bash as far as the script itself decides them."""

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from lumicontainer.jobs.lint.reading.model import FILLER, HOME, UNKNOWN

if TYPE_CHECKING:  # It is imported when a script is linted.
    from tree_sitter import Node

_FILLERS = re.compile(f"{FILLER.decode()}+")
_ESCAPED = re.compile(r"\\(\n|.)", re.DOTALL)
_ESCAPED_IN_STRING = re.compile(r'\\([$`"\\])|\\\n')
_PLAIN_EXPANSION = re.compile(r"\$\{?([A-Za-z_]\w*)(?::?-[^${}]*)?\}?")
_LITERAL = {"word", "number", "file_descriptor", "variable_name", "extglob_pattern", "regex"}
_NAMES = frozenset(("simple_expansion", "expansion"))


def evaluate(node: "Node", known: Mapping[str, str]) -> str:
    """Return the text of a word; ``UNKNOWN`` stands for each part that is not known."""
    kind, text = node.type, _text(node)
    if FILLER.decode() in text and kind in (*_LITERAL, "raw_string"):
        return _FILLERS.sub(UNKNOWN, text.strip("'"))
    if kind in _LITERAL:
        return HOME + text[1:] if text.startswith("~/") else _ESCAPED.sub(_unescape, text)
    if kind == "raw_string":
        return text[1:-1]
    if kind in ("string", "command_name", "concatenation"):
        return "".join(_pieces(node, known))
    # A default may be another in the environment of whoever sends the job.
    match = _PLAIN_EXPANSION.fullmatch(text) if kind in _NAMES else None
    return known.get(match[1], UNKNOWN) if match else UNKNOWN


def _pieces(node: "Node", known: Mapping[str, str]) -> Iterator[str]:
    """Yield the parts of a node; blanks of strings belong to none of its children."""
    quoted = node.type == "string"
    source = node.text or b""
    at = node.start_byte
    for child in node.children:
        gap = source[at - node.start_byte : child.start_byte - node.start_byte]
        yield gap.decode(errors="replace")
        at = child.end_byte
        if child.type == "string_content":
            plain = _ESCAPED_IN_STRING.sub(lambda match: match[1] or "", _text(child))
            yield _FILLERS.sub(UNKNOWN, plain)
        elif not (quoted and child.type == '"'):
            yield evaluate(child, known) if child.is_named else _text(child)


def _unescape(match: re.Match[str]) -> str:
    return "" if match[1] == "\n" else match[1]


def _text(node: "Node") -> str:
    return (node.text or b"").decode(errors="replace")


def expanded_names(node: "Node") -> Iterator[tuple[str, int, int]]:
    """Yield each variable that a node expands itself, with its place."""
    if node.type in _NAMES:
        for child in node.children:
            if child.type in ("variable_name", "special_variable_name"):
                yield _text(child), node.start_byte, node.end_byte
    for child in node.children:
        yield from expanded_names(child)


def is_many(node: "Node") -> bool:
    """Return whether a word may become any number of words: a list, or one without quotes."""
    text = _text(node)
    if text.strip(FILLER.decode()) == "":
        return True
    return "[@]" in text or "[*]" in text or text in ("$@", '"$@"', "$*") or _is_bare(node)


def _is_bare(node: "Node") -> bool:
    return node.type in (*_NAMES, "command_substitution")
