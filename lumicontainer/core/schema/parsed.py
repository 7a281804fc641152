"""Read a document once: its nodes are kept, in plain values, under the sha256 of its text.

A command reads a hundred documents, and the next one the same. The import of PyYAML and the
reading were a quarter of the time of ``render``; see ``documents`` for what outlives a command.
"""

from __future__ import annotations

import hashlib
from typing import Any

from lumicontainer.core.schema import document
from lumicontainer.core.schema.document import Mapping, Node, Place, Problems, Scalar, Sequence

KEPT: dict[str, Any] = {}
"""By the sha256 of a text its root node, which knows its place but for the file:
``[line, column, text, plain]``, ``[line, column, items]`` or ``[line, column, keys, values]``.
The last are those that were asked for last."""


def parse(text: str, file: str, problems: Problems) -> Node | None:
    """Return the root node of ``text``, or None where a problem was noted."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
    kept = KEPT.pop(digest, None)
    if kept is None:
        root = document.parse(text, file, problems)
        if root is None:
            return None
        KEPT[digest] = _plain(root)
        return root
    KEPT[digest] = kept
    return _node(kept, file)


def _plain(node: Node) -> list[Any]:
    at = [node.place.line, node.place.column]
    if isinstance(node, Scalar):
        return [*at, node.text, node.plain]
    if isinstance(node, Sequence):
        return [*at, [_plain(item) for item in node.items]]
    keys = [_plain(key) for key, _ in node.entries]
    return [*at, keys, [_plain(value) for _, value in node.entries]]


def _node(kept: list[Any], file: str) -> Node:
    line, column, what, *more = kept
    place = Place(file, line, column)
    if isinstance(what, str):
        return Scalar(place, what, more[0])
    items: list[Any] = [_node(item, file) for item in what]
    if not more:
        return Sequence(place, tuple(items))
    values = [_node(value, file) for value in more[0]]
    return Mapping(place, tuple(zip(items, values, strict=True)))
