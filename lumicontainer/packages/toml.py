"""Read TOML of others, within bounds: a short text must not cost minutes."""

import re
import tomllib
from collections.abc import Mapping
from typing import Any

MOST = 1 << 24
"""Characters. A lock of a large project has some 2 million."""
_MOST_DOTS = 100
"""In a key: the time that tomllib takes is quadratic in its parts (Python 3.11 to 3.14)."""
_TEXT = re.compile(
    r'"""(?:[^"\\]|\\(?:.|\Z)|""?(?!"))*+(?:"{3,5}|\Z)'
    r"|'''(?:[^']|''?(?!'))*+(?:'{3,5}|\Z)"
    r'|"(?:[^"\\\n]|\\[^\n])*+(?:"|\\?(?=\n|\Z))'
    r"|'[^'\n]*+(?:'|(?=\n|\Z))"
    r"|#[^\n]*+",
    re.DOTALL,
)
"""Texts and comments. One without an end reaches to the end of its line or of the file."""
_KEY = re.compile(r"[\w. \t-]+")


class TomlError(ValueError):
    """A text is not TOML, or it is more than is read."""


def read_toml(text: str) -> Mapping[str, Any]:
    """Return the values of a text; raise ``TomlError`` for one that is not read."""
    if len(text) > MOST:
        raise TomlError(f"it has more than {MOST} characters")
    bare = _TEXT.sub("_", text)
    if any(each[0].count(".") > _MOST_DOTS for each in _KEY.finditer(bare)):
        raise TomlError(f"a key has more than {_MOST_DOTS} parts")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise TomlError("its tables or lists stand in each other too deeply") from None
    # An integer of too many digits is a plain ValueError.
    except ValueError as error:
        raise TomlError(str(error)) from error
