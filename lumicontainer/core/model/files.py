"""A file of a layer's folder."""

from __future__ import annotations

from typing import NamedTuple


class LayerFile(NamedTuple):
    """Hold one file of a layer's folder; ``mode`` is 0o644 or 0o755, as git keeps it."""

    name: str
    mode: int
    content: bytes
