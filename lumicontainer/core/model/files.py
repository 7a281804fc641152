"""A file of a layer's folder, and the value of a parameter."""

from typing import NamedTuple, TypeAlias

Value: TypeAlias = str | int | bool


class LayerFile(NamedTuple):
    """Hold one file of a layer's folder; ``mode`` is 0o644 or 0o755, as git keeps it."""

    name: str
    mode: int
    content: bytes
