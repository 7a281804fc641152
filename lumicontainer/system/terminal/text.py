"""Remove control characters from the output of other programs."""

from __future__ import annotations

import re

_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_ESCAPE = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|.)?", re.DOTALL)


def clean(text: str) -> str:
    """Return text without escape sequences, control characters and overwritten lines."""
    last = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    return _UNPRINTABLE.sub("", _ESCAPE.sub("", last))
