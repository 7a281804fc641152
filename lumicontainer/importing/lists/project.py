"""Read what a project requires: ``pyproject.toml`` (PEP 621), and locks of uv and PEP 751."""

import contextlib
import re
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from lumicontainer.errors import Fault, InputError, Problem
from lumicontainer.importing.draft import NOT_NEEDED, Draft, FileLine, limit_entries, read_imported
from lumicontainer.importing.lists.requirements import add_option, add_requirement
from lumicontainer.packages.indexes import other_indexes, project_indexes, toml_table
from lumicontainer.packages.lines import Option
from lumicontainer.packages.project import DEPENDENCIES, listed_requirements
from lumicontainer.packages.project_sources import ProjectSources
from lumicontainer.packages.pylock import PylockError, hashes_of, read_pylock, requirement_of
from lumicontainer.packages.toml import TomlError, read_toml
from lumicontainer.packages.uv_lock import (
    UvPackage,
    at_commit,
    needed_packages,
    own_projects,
    read_packages,
)
from lumicontainer.system.files.recipe_folder import display

_CHOOSE = "name what you need of it under packages.python"
_CHOICE = re.compile(r"\b(extras|dependency_groups)\b")
_OF_PROJECT = "it is a file or a folder of the project, and an index may have another package"


def read_project(draft: Draft, name: str) -> None:
    """Add what a project requires, without its extras and groups.

    Raises ``InputError`` if the file does not describe a project.
    """
    text, data = _read(draft, name)
    project = data.get("project", {})
    if "project" not in data or not isinstance(project, dict):
        hint = "list its dependencies under [project] (PEP 621), or name a requirements.txt"
        if "poetry" in data.get("tool", {}):
            hint = "write it for pip: poetry export --output requirements.txt, and import that"
        raise InputError(Problem("expected a project with dependencies", name, hint=hint))
    if DEPENDENCIES[1] not in project:
        raise InputError(_lists_none(name, project))
    sources = ProjectSources(data)
    _note_limits(FileLine(draft, name, 1), text, data)
    for each in limit_entries(name, listed_requirements(data, DEPENDENCIES), "requirement"):
        if isinstance(each, Fault):
            FileLine(draft, name, 1, "dependencies").refuse(each.what)
        else:
            _add_required(_line(draft, name, text, each), sources)
    _add_indexes(draft, name, text, project_indexes(data))
    _note_rest(FileLine(draft, name, 1), text, data)


def _lists_none(name: str, project: Mapping[str, Any]) -> Problem:
    dynamic = project.get("dynamic")
    is_dynamic = isinstance(dynamic, list) and DEPENDENCIES[1] in dynamic
    why = "they are dynamic: its build decides them" if is_dynamic else ""
    hint = "list them in [project] (PEP 621), or name a requirements.txt with them"
    return Problem("the file names no dependencies", name, why, hint)


def _add_indexes(draft: Draft, name: str, text: str, indexes: Iterable[Option]) -> None:
    for each in limit_entries(name, indexes, "index"):
        add_option(_line(draft, name, text, each.value), *each)


def _add_required(line: FileLine, sources: ProjectSources) -> None:
    """Add a requirement from where uv takes it, if the project says so."""
    place = sources.place(line.text, PurePosixPath("/"))
    name = re.split(r"[^\w.-]", line.text.strip())[0]
    if isinstance(place, str) and " @ file:" not in place:
        add_requirement(line, place)
    elif not line.decided("python", str(canonicalize_name(name))):
        line.refuse(_OF_PROJECT if isinstance(place, str) else place.why)


def _note_limits(line: FileLine, text: str, data: Mapping[str, Any]) -> None:
    """Add what limits versions: of Python, and of packages that others require."""
    python, version = data["project"].get("requires-python"), line.draft.goal.python
    with contextlib.suppress(InvalidSpecifier):
        if isinstance(python, str) and version not in SpecifierSet(python):
            here = _line(line.draft, line.file, text, "requires-python")
            here.part(f"requires-python {python}").replace("python", f"{python} was asked for")
    tool = toml_table(data, "tool")
    for key in ("override-dependencies", "constraint-dependencies"):
        if toml_table(tool, "uv").get(key):
            _line(line.draft, line.file, text, key).decided("pip_options", "--override")
    if toml_table(toml_table(toml_table(tool, "pdm"), "resolution"), "overrides"):
        here = _line(line.draft, line.file, text, "tool.pdm.resolution.overrides")
        here.decided("pip_options", "--override")


def _note_rest(line: FileLine, text: str, data: Mapping[str, Any]) -> None:
    """Add what a user may choose by name."""
    tables = {
        "project.optional-dependencies": toml_table(data["project"], "optional-dependencies"),
        "dependency-groups": toml_table(data, "dependency-groups"),
        **_groups_of_tools(toml_table(data, "tool")),
    }
    for name, groups in tables.items():
        for group in limit_entries(line.file, groups, "group"):
            word = f"{name}.{group}" if f"{name}.{group}" in text else f"{group} ="
            here = _line(line.draft, line.file, text, word)
            _note_choice(here.part(f"{name}.{group}"))


def _groups_of_tools(tool: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """Return the groups in tables of uv, Poetry, PDM and Hatch, by the names of the tables."""
    uv, poetry, pdm = (toml_table(tool, name) for name in ("uv", "poetry", "pdm"))
    dev = "dev-dependencies"
    return {
        "tool.uv": {dev: uv[dev]} if uv.get(dev) else {},
        "tool.poetry.group": toml_table(poetry, "group"),
        f"tool.pdm.{dev}": toml_table(pdm, dev),
        "tool.hatch.envs": toml_table(toml_table(tool, "hatch"), "envs"),
    }


def _note_choice(line: FileLine) -> None:
    line.note(NOT_NEEDED, _CHOOSE)


def _line(draft: Draft, name: str, text: str, word: str) -> FileLine:
    """Return the line of a file on which a text stands first."""
    at = text.find(word)
    return FileLine(draft, name, text.count("\n", 0, max(at, 0)) + 1, word)


def _read(draft: Draft, name: str) -> tuple[str, Mapping[str, Any]]:
    text = read_imported(draft, name)
    try:
        return text, read_toml(text)
    except TomlError as error:
        place = display(draft.folder / name)
        hint = "correct the line"
        raise InputError(Problem("this is not TOML", place, str(error), hint)) from error


def read_uv_lock(draft: Draft, name: str) -> None:
    """Add the packages that a lock of uv has for the project, without its extras and groups.

    Raises ``InputError`` if the file is not a lock of uv.
    """
    text, data = _read(draft, name)
    packages = [*limit_entries(name, read_packages(data), "package")]
    if not packages:
        hint = "uv export --no-hashes writes a requirements.txt"
        raise InputError(Problem("expected a lock of uv with packages", name, hint=hint))
    own = {each.name: each for each in own_projects(packages)}
    for each in needed_packages(packages, draft.goal.python):
        pin = f"{each.name}=={each.version}" if each.version else each.name
        line = _line(draft, name, text, f'name = "{each.name}"').part(pin)
        if each.name in own:
            line.part(each.name).note(NOT_NEEDED, "it is the project; bind your code")
        else:
            _add_locked(line, each)
    for each in own.values():
        for choice in (*each.choices, *each.groups):
            _note_choice(_line(draft, name, text, f"{choice} = [").part(f"{each.name}.{choice}"))
    indexes = other_indexes(each.source.get("registry") for each in packages)
    _add_indexes(draft, name, text, indexes)


def _add_locked(line: FileLine, package: UvPackage) -> None:
    git = package.source.get("git")
    url = package.source.get("url") if git is None else f"git+{at_commit(git)}"
    if package.place():
        if not line.decided("python", package.name):
            line.part(package.name).refuse(f"{_OF_PROJECT}: {package.place()}")
    else:
        add_requirement(line, f"{package.name} @ {url}" if url else line.text)


def read_locked_packages(draft: Draft, name: str) -> None:
    """Add the packages of a lock of PEP 751, without its extras and with its default groups.

    Raises ``InputError`` if the file is not such a lock.
    """
    text = read_imported(draft, name)
    try:
        lock = read_pylock(text)
    except PylockError as error:
        place, hint = display(draft.folder / name), "let uv, pip or pdm write the lock"
        raise InputError(Problem("expected a lock of PEP 751", place, str(error), hint)) from error
    for each in limit_entries(name, lock.packages, "package"):
        line = _line(draft, name, text, f'name = "{each.name}"').part(each.name)
        meant = requirement_of(each, lock.default_groups or (), draft.folder.absolute())
        if isinstance(meant, Fault):
            line.refuse(meant.why)
        else:
            add_requirement(line.part(meant), meant, hashed=bool(hashes_of(each)))
            row, chosen = draft.lines[-1], _CHOICE.search(str(each.marker or ""))
            if chosen and row.outcome == NOT_NEEDED:
                draft.lines[-1] = row._replace(text=each.name, note=_CHOOSE)
    indexes = other_indexes(each.index for each in lock.packages)
    _add_indexes(draft, name, text, indexes)
