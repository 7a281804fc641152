"""The decided value of one parameter of a layer."""

from __future__ import annotations

from typing import NamedTuple

from lumicontainer.core.model import Value


class Setting(NamedTuple):
    """Hold one decided value: where it came from, in one word and as a place."""

    name: str
    value: Value
    origin: str
    """``layer`` (its default), ``variant`` (the accelerator's), ``profile``, ``recipe`` or
    ``option``."""
    place: str
