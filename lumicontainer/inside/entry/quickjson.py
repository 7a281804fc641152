"""Read JSON without the module ``json``, whose import takes 6 ms: half of a start of Python."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class _Rules:
    """Say how the scanner shall read: as ``json.loads`` does."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float


def loads(text: str) -> Any:
    """Return the value of a JSON text; raise ValueError where it is none."""
    try:
        from _json import make_scanner  # noqa: PLC0415 - not every Python has it
    except ImportError:
        import json  # noqa: PLC0415 - slow to import

        return json.loads(text)
    text = text.strip()
    try:
        value, end = make_scanner(_Rules())(text, 0)  # type: ignore[arg-type]
    except StopIteration as error:
        raise ValueError(f"no value at {error.value}") from None
    if end != len(text):
        raise ValueError(f"more than one value at {end}")
    return value
