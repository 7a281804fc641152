"""Read the lock of uv (``uv.lock``): its packages, and those that a project needs."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from packaging.markers import InvalidMarker, Marker, UndefinedComparison, UndefinedEnvironmentName

from lumicontainer.core.model.requirements import marker_values

_LOCAL = ("virtual", "editable", "directory", "path")
"""The sources of a lock that are the project's own folders."""


class UvPackage(NamedTuple):
    """Hold a package of a lock, or what one requires."""

    name: str
    version: str
    source: Mapping[str, str]
    marker: str
    markers: Sequence[str]
    dependencies: Sequence["UvPackage"]

    def asked(self) -> tuple[str, str, str]:
        """Return what decides which packages a requirement means."""
        return self.name, self.version, self.marker

    def is_local(self) -> bool:
        """Return whether it is one of the project's own folders."""
        return any(kind in self.source for kind in _LOCAL)


def read_packages(data: Mapping[str, Any]) -> list[UvPackage]:
    """Return the packages of a lock; empty if it is not one of uv."""
    return _read_packages(data.get("package"))


def _read_packages(listed: object) -> list[UvPackage]:
    """Return the packages of a list; a value of another type than uv's is left out."""
    rows = listed if isinstance(listed, list) else []
    named = (row for row in rows if isinstance(row, dict) and isinstance(row.get("name"), str))
    return [
        UvPackage(
            row["name"],
            "".join(_texts([row.get("version")])),
            {key: each for key, each in _table(row, "source").items() if isinstance(each, str)},
            "".join(_texts([row.get("marker")])),
            _texts(row.get("resolution-markers")),
            _read_packages(row.get("dependencies")),
        )
        for row in named
    ]


def _texts(listed: object) -> list[str]:
    return [each for each in listed if isinstance(each, str)] if isinstance(listed, list) else []


def _table(row: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = row.get(key)
    return value if isinstance(value, dict) else {}


def at_commit(url: str) -> str:
    """Return a URL as pip writes it: a lock has the commit behind '#'."""
    path, _, commit = url.partition("#")
    return f"{path.partition('?')[0]}@{commit}" if commit else path


def needed_packages(packages: Sequence[UvPackage], python: str) -> Iterator[UvPackage]:
    """Yield the packages that the project needs for a Python, in the order of the lock.

    None of its extras and groups is chosen.
    """
    named: dict[tuple[str, str], list[UvPackage]] = {}
    for package in packages:
        for version in {package.version, ""}:
            named.setdefault((package.name, version), []).append(package)
    left = [each for each in packages if each.is_local()] or [*packages]
    seen: set[int] = set()
    followed: set[tuple[str, str, str]] = set()
    while left:
        package = left.pop()
        if id(package) in seen:
            continue
        seen.add(id(package))
        for each in package.dependencies:
            if each.asked() not in followed and _applies(each.marker, python):
                rows = named.get((each.name, each.version), ())
                left += [candidate for candidate in rows if _applies_any(candidate.markers, python)]
            followed.add(each.asked())
    yield from (each for each in packages if id(each) in seen)


def _applies_any(markers: Sequence[str], python: str) -> bool:
    return not markers or any(_applies(each, python) for each in markers)


def _applies(marker: str, python: str) -> bool:
    # A lock may choose by extras and groups, of which none is installed.
    bare = re.sub(r"extra == '[^']*'", "python_version < '0'", marker)
    try:
        return not bare or Marker(bare).evaluate(marker_values(python))
    except (InvalidMarker, UndefinedComparison, UndefinedEnvironmentName):
        return True
