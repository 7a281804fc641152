"""Read what uv prints when it cannot build a source (uv 0.7 to 0.13)."""

import re

_UNBUILT = re.compile(
    r"Failed to (?:download and )?build `(([A-Za-z0-9][\w.-]*?)(?:(?:==|@| )[^`]*)?)`"
)
_NEEDS_IMAGE = re.compile(r"No module named|resolving: `|requirements from `build-system")


def unbuilt_sources(text: str) -> list[tuple[str, str]]:
    """Return the sources that could not be built: each as uv names it, and its package."""
    return _UNBUILT.findall(text)


def needs_image(text: str) -> bool:
    """Return whether a build needs packages that its own environment does not have."""
    return bool(_NEEDS_IMAGE.search(text))
