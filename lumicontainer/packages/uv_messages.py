"""Read what uv prints of sources that it cannot build, and of extras (uv 0.7 to 0.13)."""

import re
from typing import NamedTuple

_UNBUILT = re.compile(
    r"Failed to (?:download and )?build `(([A-Za-z0-9][\w.-]*?)(?:(?:==|@| )[^`]*)?)`"
)
_NEEDS_IMAGE = re.compile(r"No module named|resolving: `|requirements from `build-system")
_NO_EXTRA = re.compile(
    r"(?m)^warning: The package `([^`=]+)==([^`]+)` does not have an extra named `([^`]+)`$"
    r"|^WARNING: (\S+) (\S+) does not provide the extra '([^']+)'$"
)
"""The message of uv, and of pip 23 to 26."""
_ERROR = re.compile(r"(?m)^(?:error:|  \u00d7)")


class MissingExtra(NamedTuple):
    """Hold an extra that a version of a package does not have."""

    package: str
    version: str
    extra: str


def missing_extras(text: str) -> list[MissingExtra]:
    """Return the extras that packages do not have, as uv or pip warns of them."""
    rows = (filter(None, match.groups()) for match in _NO_EXTRA.finditer(text))
    return [MissingExtra(*row) for row in rows]


def without_progress(text: str) -> str:
    """Return the message of a uv that failed, without what it printed before."""
    error = _ERROR.search(text)
    return text[error.start() :] if error else text


def unbuilt_sources(text: str) -> list[tuple[str, str]]:
    """Return the sources that could not be built: each as uv names it, and its package."""
    return _UNBUILT.findall(text)


def needs_image(text: str) -> bool:
    """Return whether a build needs packages that its own environment does not have."""
    return bool(_NEEDS_IMAGE.search(text))
