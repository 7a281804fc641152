"""The nodes of a YAML document, each with its place."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from lumicontainer.errors import Place


class Scalar(NamedTuple):
    """Hold one scalar: its text, and whether it stood there without quotes."""

    place: Place
    text: str
    plain: bool


class Sequence(NamedTuple):
    """Hold a list of nodes."""

    place: Place
    items: tuple[Node, ...]


class Mapping(NamedTuple):
    """Hold the entries of a mapping, in the order in which they were written."""

    place: Place
    entries: tuple[tuple[Scalar, Node], ...]


Node: TypeAlias = Scalar | Sequence | Mapping
