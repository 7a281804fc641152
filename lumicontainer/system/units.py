"""Format sizes, ages and counts for people, and read sizes."""

import re

from lumicontainer.errors import InputError, Problem

_SIZES = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_AGES = ((86_400, "d"), (3_600, "h"), (60, "min"))


def size(number: int) -> str:
    """Return a number of bytes with a binary unit."""
    texts = (f"{number / unit:.1f} {name}" for unit, name in _SIZES if number >= unit)
    return next(texts, f"{number} B")


def age(seconds: float) -> str:
    """Return an age in words, such as ``2 h ago``."""
    texts = (f"{seconds // unit:.0f} {name} ago" for unit, name in _AGES if seconds >= unit)
    return next(texts, "just now")


def count(number: int, singular: str) -> str:
    """Return a number with its noun."""
    return f"{number} {singular}" if number == 1 else f"{number} {singular}s"


def parse_size(text: str, where: str) -> int:
    """Return a size such as ``500M`` in bytes; raise ``InputError`` naming ``where`` if invalid."""
    parts = re.fullmatch(r"(?ai)([0-9]{1,15}(?:\.[0-9]+)?) ?(?:([KMGT])i?)?B?", text.strip())
    if parts is None:
        raise InputError(Problem(f"invalid size {text!r}", where, hint="write it like 500M or 8G"))
    return int(float(parts[1]) * _UNITS[(parts[2] or "").upper()])
