"""Read and write locks of packages (PEP 751). ``packaging.pylock`` says what is valid."""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from packaging.pylock import Package, Pylock, PylockValidationError

from lumicontainer.packages.toml import TomlError, read_toml

_CHOICE = re.compile(r"""(['"])([^'"]*)\1\s+(not\s+)?in\s+(extras|dependency_groups)""")
"""The conditions in markers that only locks have."""
_PACKAGES = "packages"


class PylockError(ValueError):
    """A text is not a lock, or not one of PEP 751."""


def read_pylock(text: str) -> Pylock:
    """Return a lock; raise ``PylockError`` for a text that is none."""
    try:
        return Pylock.from_dict(read_toml(text))
    except (TomlError, PylockValidationError) as error:
        raise PylockError(str(error)) from error


def pylock_text(lock: Pylock) -> str:
    """Return a lock as TOML, with a table for each package."""
    data = dict(lock.to_dict())
    packages = data.pop(_PACKAGES)
    parts = ["".join(_lines(data)), *("".join(_lines(each)) for each in packages)]
    return f"\n[[{_PACKAGES}]]\n".join(parts)


def _lines(table: Mapping[str, Any]) -> Iterator[str]:
    return (f"{_text(key)} = {_value(value)}\n" for key, value in table.items())


def _value(value: Any) -> str:
    match value:
        case str():
            return _text(value, quoted=True)
        case datetime():
            return value.isoformat()
        case Mapping():
            rows = (f"{_text(key)} = {_value(each)}" for key, each in value.items())
            return f"{{ {', '.join(rows)} }}"
        case Sequence():
            rows = (f"\n    {_value(each)}," for each in value)
            return f"[{''.join(rows)}\n]"
    return json.dumps(value)


def _text(text: str, *, quoted: bool = False) -> str:
    """Return a key or a text; JSON escapes as TOML does, but for one character."""
    if not quoted and re.fullmatch(r"[\w-]+", text, re.ASCII):
        return text
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def with_hashes(package: Package, allowed: Collection[str]) -> Package:
    """Return a package with only the files that have one of the sha256."""
    wheels = [each for each in package.wheels or () if each.hashes.get("sha256") in allowed]
    source = package.sdist
    if source and source.hashes.get("sha256") not in allowed:
        source = None
    return replace(package, wheels=wheels or None, sdist=source)


def hashes_of(package: Package) -> list[str]:
    """Return the sha256 of the files of a package."""
    files = [package.sdist, package.archive, *(package.wheels or ())]
    return [each.hashes["sha256"] for each in files if each and "sha256" in each.hashes]


def marker_of(package: Package, groups: Collection[str]) -> str:
    """Return the marker of a package as one of a requirement; empty for none.

    No extra is chosen, and ``groups`` are.
    """

    def decided(found: re.Match[str]) -> str:
        chosen = found[4] == "dependency_groups" and found[2] in groups
        return f"python_version {'<' if chosen == bool(found[3]) else '>='} '0'"

    return _CHOICE.sub(decided, str(package.marker or ""))
