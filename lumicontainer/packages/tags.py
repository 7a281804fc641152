"""Order the tags of wheels that a Python supports (PEP 425)."""

from collections.abc import Sequence

from packaging.tags import Tag, compatible_tags, cpython_tags


def tags_for(python: str, platforms: Sequence[str]) -> list[Tag]:
    """Return the tags of wheels for a CPython such as 3.11, the best first."""
    version = tuple(map(int, python.split(".")))
    interpreter = f"cp{''.join(map(str, version))}"
    return [
        *cpython_tags(version, platforms=platforms),
        *compatible_tags(version, interpreter, platforms),
    ]
