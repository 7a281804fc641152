"""Read what a project requires: ``pyproject.toml`` (PEP 621), and the lock of uv."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from packaging.markers import InvalidMarker, Marker, UndefinedComparison, UndefinedEnvironmentName

from lumicontainer.core.model.requirements import marker_values
from lumicontainer.errors import InputError, Problem
from lumicontainer.importing.draft import NOT_NEEDED, Draft, FileLine, bounded, imported_text
from lumicontainer.importing.lists.requirements import add_requirement
from lumicontainer.packages.toml import TomlError, read_toml
from lumicontainer.system.files.recipe_folder import display

_LOCAL = ("virtual", "editable", "directory", "path")
"""The sources of a lock that are the project's own folders."""


def read_project(draft: Draft, name: str) -> None:
    """Add what a project requires, without its extras and groups.

    Raises ``InputError`` if the file is none of a project.
    """
    text, data = _read(draft, name)
    project = data.get("project", {})
    listed = project.get("dependencies", []) if isinstance(project, dict) else None
    if "project" not in data or not isinstance(listed, list):
        hint = "list what it requires under [project] (PEP 621), or name a requirements.txt"
        raise InputError(Problem("expected a project with dependencies", name, hint=hint))
    for each in bounded(name, listed, "requirement"):
        line = _line(draft, name, text, str(each))
        add_requirement(line, str(each))
    _note_rest(FileLine(draft, name, 1), text, data)


def _note_rest(line: FileLine, text: str, data: Mapping[str, Any]) -> None:
    """Add what a user may choose by name."""
    tables = {
        "project.optional-dependencies": data["project"].get("optional-dependencies", {}),
        "dependency-groups": data.get("dependency-groups", {}),
    }
    for table, groups in tables.items():
        for group in bounded(line.file, groups if isinstance(groups, dict) else (), "group"):
            here = _line(line.draft, line.file, text, f"{group} =")._replace(
                text=f"{table}.{group}"
            )
            here.note(NOT_NEEDED, "name what you need of it under packages.python")


def _line(draft: Draft, name: str, text: str, word: str) -> FileLine:
    """Return the line of a file on which a text stands first."""
    found = text.find(word)
    return FileLine(draft, name, text.count("\n", 0, max(found, 0)) + 1, word)


def _read(draft: Draft, name: str) -> tuple[str, Mapping[str, Any]]:
    text = imported_text(draft, name)
    try:
        return text, read_toml(text)
    except TomlError as error:
        place = display(draft.folder / name)
        hint = "correct the line"
        raise InputError(Problem("this is not TOML", place, str(error), hint)) from error


def read_uv_lock(draft: Draft, name: str) -> None:
    """Add the packages that a lock of uv has for the project, without its extras and groups.

    Raises ``InputError`` if the file is no lock of uv.
    """
    text, data = _read(draft, name)
    packages = [*bounded(name, _packages(data.get("package")), "package")]
    if not packages:
        hint = "uv export --no-hashes writes a requirements.txt"
        raise InputError(Problem("expected a lock of uv with packages", name, hint=hint))
    for each in _needed(packages, draft.goal.python):
        pin = f"{each.name}=={each.version}" if each.version else each.name
        line = _line(draft, name, text, f'name = "{each.name}"').part(pin)
        if each.is_local():
            line.part(each.name).note(NOT_NEEDED, "it is the project; bind your code")
        elif "git" in each.source or "url" in each.source:
            git = each.source.get("git")
            url = each.source["url"] if git is None else f"git+{_at_commit(git)}"
            add_requirement(line, f"{each.name} @ {url}")
        else:
            add_requirement(line, line.text)


class _Package(NamedTuple):
    """Hold a package of a lock, or what one requires."""

    name: str
    version: str
    source: Mapping[str, str]
    marker: str
    markers: Sequence[str]
    dependencies: Sequence["_Package"]

    def asked(self) -> tuple[str, str, str]:
        """Return what decides which packages a requirement means."""
        return self.name, self.version, self.marker

    def is_local(self) -> bool:
        """Return whether it is one of the project's own folders."""
        return any(kind in self.source for kind in _LOCAL)


def _packages(listed: object) -> list[_Package]:
    """Return the packages of a list; a value of another type than uv's is left out."""
    rows = listed if isinstance(listed, list) else []
    named = (row for row in rows if isinstance(row, dict) and isinstance(row.get("name"), str))
    return [
        _Package(
            row["name"],
            "".join(_texts([row.get("version")])),
            {key: each for key, each in _table(row, "source").items() if isinstance(each, str)},
            "".join(_texts([row.get("marker")])),
            _texts(row.get("resolution-markers")),
            _packages(row.get("dependencies")),
        )
        for row in named
    ]


def _texts(listed: object) -> list[str]:
    return [each for each in listed if isinstance(each, str)] if isinstance(listed, list) else []


def _table(row: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = row.get(key)
    return found if isinstance(found, dict) else {}


def _at_commit(url: str) -> str:
    """Return a URL as pip writes it: a lock has the commit behind '#'."""
    path, _, commit = url.partition("#")
    return f"{path.partition('?')[0]}@{commit}" if commit else path


def _needed(packages: Sequence[_Package], python: str) -> Iterator[_Package]:
    """Yield the packages that the project needs here, in the order of the lock."""
    named: dict[tuple[str, str], list[_Package]] = {}
    for package in packages:
        for version in {package.version, ""}:
            named.setdefault((package.name, version), []).append(package)
    left = [each for each in packages if each.is_local()] or [*packages]
    seen: set[int] = set()
    asked: set[tuple[str, str, str]] = set()
    while left:
        package = left.pop()
        if id(package) in seen:
            continue
        seen.add(id(package))
        for each in package.dependencies:
            if each.asked() not in asked and _applies(each.marker, python):
                rows = named.get((each.name, each.version), ())
                left += [found for found in rows if _applies_any(found.markers, python)]
            asked.add(each.asked())
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
