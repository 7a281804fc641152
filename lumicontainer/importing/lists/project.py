"""Read what a project requires: ``pyproject.toml`` (PEP 621), and the lock of uv."""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from packaging.markers import InvalidMarker, Marker, UndefinedComparison, UndefinedEnvironmentName

from lumicontainer.core.model.requirements import marker_values
from lumicontainer.errors import InputError, Problem
from lumicontainer.importing.draft import NOT_NEEDED, Draft, FileLine, imported_text
from lumicontainer.importing.lists.requirements import add_requirement
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
    for each in listed:
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
        for group in groups if isinstance(groups, dict) else ():
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
        return text, tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        place = display(draft.folder / name)
        hint = "correct the line"
        raise InputError(Problem("this is not TOML", place, str(error), hint)) from error


def read_uv_lock(draft: Draft, name: str) -> None:
    """Add the packages that a lock of uv has for the project, without its extras and groups.

    Raises ``InputError`` if the file is no lock of uv.
    """
    text, data = _read(draft, name)
    listed = data.get("package")
    rows = [row for row in listed if _is_row(row)] if isinstance(listed, list) else []
    if not rows:
        hint = "uv export --no-hashes writes a requirements.txt"
        raise InputError(Problem("expected a lock of uv with packages", name, hint=hint))
    for row in _needed(rows, draft.goal.python):
        version = row.get("version", "")
        at = text.find(f'name = "{row["name"]}"')
        line = FileLine(
            draft, name, text.count("\n", 0, max(at, 0)) + 1, f"{row['name']}=={version}"
        )
        source = row.get("source", {})
        if any(kind in source for kind in _LOCAL):
            line.part(row["name"]).note(NOT_NEEDED, "it is the project; bind your code")
        elif "git" in source or "url" in source:
            url = f"git+{_at_commit(source['git'])}" if "git" in source else source["url"]
            add_requirement(line, f"{row['name']} @ {url}")
        else:
            add_requirement(line, line.text)


def _is_row(row: object) -> bool:
    return isinstance(row, dict) and isinstance(row.get("name"), str)


def _at_commit(url: str) -> str:
    """Return a URL as pip writes it: a lock has the commit behind '#'."""
    path, _, commit = url.partition("#")
    return f"{path.partition('?')[0]}@{commit}" if commit else path


def _needed(rows: Sequence[Mapping[str, Any]], python: str) -> Iterator[Mapping[str, Any]]:
    """Yield the packages that the project needs here, in the order of the lock."""
    named: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        named.setdefault(row["name"], []).append(row)
    left = [row for row in rows if any(kind in row.get("source", {}) for kind in _LOCAL)] or [*rows]
    seen: set[int] = set()
    while left:
        row = left.pop()
        if id(row) in seen:
            continue
        seen.add(id(row))
        wanted = [each for each in row.get("dependencies", ()) if _is_row(each)]
        for each in wanted:
            if _applies(each.get("marker", ""), python):
                left += [
                    found
                    for found in named.get(each["name"], ())
                    if each.get("version", found.get("version")) == found.get("version")
                    and _applies_any(found.get("resolution-markers", ()), python)
                ]
    yield from (row for row in rows if id(row) in seen)


def _applies_any(markers: Sequence[str], python: str) -> bool:
    return not markers or any(_applies(each, python) for each in markers)


def _applies(marker: str, python: str) -> bool:
    # A lock may choose by extras and groups, of which none is installed.
    bare = re.sub(r"extra == '[^']*'", "python_version < '0'", marker)
    try:
        return not bare or Marker(bare).evaluate(marker_values(python))
    except (InvalidMarker, UndefinedComparison, UndefinedEnvironmentName):
        return True
