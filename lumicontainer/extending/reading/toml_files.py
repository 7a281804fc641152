"""Read requirements in TOML: a project's (PEP 621), its build's (PEP 518), a lock's (PEP 751)."""

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from lumicontainer.errors import Problems
from lumicontainer.extending.lock import hashes
from lumicontainer.extending.reading.lines import PackageLine
from lumicontainer.packages.toml import TomlError, read_toml

_CHOICE = re.compile(r"""(['"])([^'"]*)\1\s+(not\s+)?in\s+(extras|dependency_groups)""")
"""The conditions in markers that only locks have."""
_ELSEWHERE = ("vcs", "archive", "directory")
"""The entries of packages that come from no index."""


def requirements(text: str, file: str, problems: Problems) -> Iterator[PackageLine]:
    """Yield the dependencies of a project, or the packages of a lock."""
    data = _read(text, file, problems)
    if data is None:
        return
    packages, project = data.get("packages"), data.get("project", {})
    if isinstance(packages, list):
        groups = data.get("default-groups", [])
        listed = groups if isinstance(groups, list) else []
        chosen = {each for each in listed if isinstance(each, str)}
        for row in packages:
            yield from _locked(row, chosen, file, problems)
    elif isinstance(project, dict) and "dependencies" not in project:
        hint = "list them in [project] (PEP 621), or write a requirements.txt"
        problems.add("the file names no dependencies", file, hint=hint)
    else:
        yield from _listed(data, "project", "dependencies", file, problems)


def build_requirements(text: str, file: str, problems: Problems) -> Iterator[PackageLine]:
    """Yield what the build of a project needs."""
    data = _read(text, file, problems) or {}
    yield from _listed(data, "build-system", "requires", file, problems)


def _read(text: str, file: str, problems: Problems) -> Mapping[str, Any] | None:
    try:
        return read_toml(text)
    except TomlError as error:
        problems.add("this is not TOML", file, why=str(error), hint="correct the line")
        return None


def _listed(
    data: Mapping[str, Any], table: str, key: str, file: str, problems: Problems
) -> Iterator[PackageLine]:
    section, name, hint = data.get(table, {}), f"{table}.{key}", f'write {key} = ["NAME==VERSION"]'
    if not isinstance(section, dict):
        problems.add(f"expected a table '{table}', got {section!r}", file, hint=f"write [{table}]")
        return
    listed = section.get(key, [])
    if not isinstance(listed, list):
        problems.add(f"expected a list '{name}', got {listed!r}", file, hint=hint)
        return
    for each in listed:
        if isinstance(each, str):
            yield PackageLine(each, file)
        else:
            problems.add(f"expected text in '{name}', got {each!r}", file, hint=hint)


def _locked(
    row: Any, groups: Collection[str], file: str, problems: Problems
) -> Iterator[PackageLine]:
    if not isinstance(row, dict):
        hint = "let uv, pip or pdm write the lock"
        problems.add(f"expected a table in 'packages', got {row!r}", file, hint=hint)
        return
    name, version, marker = (row.get(each) for each in ("name", "version", "marker"))
    if not isinstance(name, str):
        hint = "let uv, pip or pdm write the lock"
        problems.add(f"expected the name of a package, got {name!r}", file, hint=hint)
        return
    if kind := next((each for each in ("archive", "directory") if _is_part(row.get(each))), ""):
        why, hint = f"its entry '{kind}' names a subdirectory", "take it out, and name a folder"
        problems.add(f"cannot install '{name}' of the lock", file, why=why, hint=f"{hint}: ./DIR")
        return
    condition = "" if marker is None else f" ; {_for_uv(str(marker), groups)}"
    if place := _place(row, Path(file).parent):
        yield PackageLine(f"{name} @ {place}{condition}", file, tuple(hashes.of_package(row)))
    elif kind := next((each for each in _ELSEWHERE if each in row), ""):
        why, hint = f"its entry '{kind}' says neither a commit of git nor a path", "take it out"
        problems.add(f"cannot install '{name}' of the lock", file, why=why, hint=hint)
    elif not isinstance(version, str):
        hint = f"take the entry out, and name it in a requirements.txt: {name} @ URL"
        problems.add(f"the lock has no version of '{name}'", file, hint=hint)
    else:
        condition = condition.removeprefix(" ")
        yield PackageLine(f"{name}=={version}{condition}", file, tuple(hashes.of_package(row)))


def _is_part(entry: object) -> bool:
    """Return whether the entry of a source names a folder in it, not all of it."""
    return isinstance(entry, Mapping) and entry.get("subdirectory") not in (None, "", ".")


def _place(row: Mapping[str, Any], folder: Path) -> str:
    """Return where the source of a package is, if no index has it; empty otherwise.

    A path counts from the ``folder`` of the lock (PEP 751).
    """
    match row:
        case {"vcs": {"type": "git", "url": str(url), "commit-id": str(commit), **more}}:
            below = more.get("subdirectory", "")
            return f"git+{url}@{commit}{f'#subdirectory={quote(str(below))}' if below else ''}"
        case {"archive": {"url": str(url)}}:
            return url
        case {"archive": {"path": str(path)}} | {"directory": {"path": str(path)}}:
            return (folder / path).absolute().as_uri()
    return ""


def _for_uv(marker: str, groups: Collection[str]) -> str:
    """Return a marker of a lock as one of a requirement: no extra is chosen, and ``groups`` are."""

    def decided(found: re.Match[str]) -> str:
        chosen = found[4] == "dependency_groups" and found[2] in groups
        return f"python_version {'<' if chosen == bool(found[3]) else '>='} '0'"

    return _CHOICE.sub(decided, marker)
