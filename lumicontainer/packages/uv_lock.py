"""Read the lock of uv (``uv.lock``): its packages, and those that a project needs."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from packaging.markers import InvalidMarker, Marker, UndefinedComparison, UndefinedEnvironmentName

from lumicontainer.core.model.requirements import marker_values
from lumicontainer.packages.indexes import toml_table

_FOLDERS = ("virtual", "editable", "directory")
"""The sources of a lock that are folders."""
_FILE = "path"


class UvPackage(NamedTuple):
    """Hold a package of a lock, or what one requires."""

    name: str
    version: str
    source: Mapping[str, str]
    marker: str
    markers: Sequence[str]
    dependencies: Sequence["UvPackage"]
    extras: Sequence[str] = ()
    """The extras that a requirement chooses."""
    choices: Mapping[str, Sequence["UvPackage"]] = {}
    """The requirements of each extra."""
    groups: Sequence[str] = ()
    """The groups of a project, such as dev."""

    def question(self) -> tuple[str, str, str, tuple[str, ...]]:
        """Return what decides which packages a requirement means."""
        return self.name, self.version, self.marker, tuple(self.extras)

    def place(self) -> str:
        """Return the path of its folder or file; empty if an index, a URL or git has it."""
        return next((self.source[key] for key in (*_FOLDERS, _FILE) if key in self.source), "")

    def is_folder(self) -> bool:
        """Return whether its source is a folder."""
        return bool(self.place()) and _FILE not in self.source


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
            {key: each for key, each in toml_table(row, "source").items() if isinstance(each, str)},
            "".join(_texts([row.get("marker")])),
            _texts(row.get("resolution-markers")),
            _read_packages(row.get("dependencies")),
            _texts(row.get("extra")),
            {
                n: _read_packages(each)
                for n, each in toml_table(row, "optional-dependencies").items()
            },
            [*toml_table(row, "dev-dependencies")],
        )
        for row in named
    ]


def _texts(listed: object) -> list[str]:
    return [each for each in listed if isinstance(each, str)] if isinstance(listed, list) else []


def at_commit(url: str) -> str:
    """Return a URL as pip writes it: a lock has the commit behind '#'."""
    path, _, commit = url.partition("#")
    return f"{path.partition('?')[0]}@{commit}" if commit else path


def needed_packages(packages: Sequence[UvPackage], python: str) -> Iterator[UvPackage]:
    """Yield the packages that the project needs for a Python, in the order of the lock.

    Its own extras and groups are left out.
    """
    named: dict[tuple[str, str], list[UvPackage]] = {}
    for package in packages:
        for version in {package.version, ""}:
            named.setdefault((package.name, version), []).append(package)
    seen: dict[int, set[str]] = {}
    followed: set[tuple[str, str, str, tuple[str, ...]]] = set()
    left = [(each, ("", *each.extras)) for each in own_projects(packages) or packages]
    while left:
        package, extras = left.pop()
        known = seen.setdefault(id(package), set())
        for each in _requirements(package, [extra for extra in extras if extra not in known]):
            if each.question() not in followed and _applies(each.marker, python):
                rows = named.get((each.name, each.version), ())
                chosen = (row for row in rows if _applies_any(row.markers, python))
                left += [(row, ("", *each.extras)) for row in chosen]
            followed.add(each.question())
        known.update(extras)
    yield from (each for each in packages if id(each) in seen)


def own_projects(packages: Sequence[UvPackage]) -> list[UvPackage]:
    """Return the project whose folder has the lock, else the folders of a workspace."""
    folders = [each for each in packages if each.is_folder()]
    return [each for each in folders if each.place() == "."] or folders


def _requirements(package: UvPackage, extras: Sequence[str]) -> Iterator[UvPackage]:
    """Yield a package's requirements with extras; the empty extra is the package itself."""
    for extra in extras:
        yield from package.choices.get(extra, ()) if extra else package.dependencies


def _applies_any(markers: Sequence[str], python: str) -> bool:
    return not markers or any(_applies(each, python) for each in markers)


def _applies(marker: str, python: str) -> bool:
    # A lock may choose by extras and groups, and none of them is installed.
    bare = re.sub(r"extra == '[^']*'", "python_version < '0'", marker)
    try:
        return not bare or Marker(bare).evaluate(marker_values(python))
    except (InvalidMarker, UndefinedComparison, UndefinedEnvironmentName):
        return True
