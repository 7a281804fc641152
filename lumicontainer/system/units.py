"""Format sizes, ages and counts for people."""

from __future__ import annotations

_SIZES = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
_AGES = ((86_400, "d"), (3_600, "h"), (60, "min"))


def size(number: int) -> str:
    """Return a number of bytes with a binary unit."""
    for unit, name in _SIZES:
        if number >= unit:
            return f"{number / unit:.1f} {name}"
    return f"{number} B"


def age(seconds: float) -> str:
    """Return an age in words, such as ``2 h ago``."""
    for unit, name in _AGES:
        if seconds >= unit:
            return f"{seconds // unit:.0f} {name} ago"
    return "just now"


def count(number: int, singular: str) -> str:
    """Return a number with its noun."""
    return f"{number} {singular}" if number == 1 else f"{number} {singular}s"
