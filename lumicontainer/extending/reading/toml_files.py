"""Read requirements in TOML: a project's (PEP 621), its build's (PEP 518), a lock's (PEP 751)."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from packaging.pylock import Package

from lumicontainer.errors import Problems
from lumicontainer.extending.reading.lines import PackageLine
from lumicontainer.packages.pylock import PylockError, hashes_of, marker_of, read_pylock
from lumicontainer.packages.toml import TomlError, read_toml


def requirements(text: str, file: str, problems: Problems) -> Iterator[PackageLine]:
    """Yield the dependencies of a project, or the packages of a lock."""
    data = _read(text, file, problems)
    if data is None:
        return
    project = data.get("project", {})
    if "packages" in data:
        yield from _locked(text, file, problems)
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


def _locked(text: str, file: str, problems: Problems) -> Iterator[PackageLine]:
    try:
        lock = read_pylock(text)
    except PylockError as error:
        hint = "let uv, pip or pdm write the lock"
        problems.add("this is not a lock of PEP 751", file, why=str(error), hint=hint)
        return
    for package in lock.packages:
        if fault := _find_fault(package):
            what, hint = f"cannot install '{package.name}' of the lock", "take it out"
            problems.add(what, file, why=fault, hint=f"{hint}, and name its source another way")
            continue
        marker = marker_of(package, lock.default_groups or ())
        place = _place(package, Path(file).parent)
        bare = f"{package.name} @ {place}" if place else f"{package.name}=={package.version}"
        blank = " " if place else ""  # It ends a URL.
        line = f"{bare}{blank}; {marker}" if marker else bare
        yield PackageLine(line, file, tuple(hashes_of(package)))


def _find_fault(package: Package) -> str:
    """Return why a package cannot be installed by a line of requirements."""
    source = package.archive or package.directory
    if source and source.subdirectory not in (None, "", "."):
        return "its source is a subdirectory"
    if package.vcs and (package.vcs.type != "git" or not package.vcs.url):
        return "its source is no repository of git with a URL"
    if package.is_direct or package.version:
        return ""
    return "the lock has no version of it"


def _place(package: Package, folder: Path) -> str:
    """Return where the source of a package is, if no index has it; empty otherwise.

    A path counts from the ``folder`` of the lock (PEP 751).
    """
    if vcs := package.vcs:
        below = f"#subdirectory={quote(vcs.subdirectory)}" if vcs.subdirectory else ""
        return f"git+{vcs.url}@{vcs.commit_id}{below}"
    if package.archive and package.archive.url:
        return package.archive.url
    source = package.archive or package.directory
    return (folder / (source.path or "")).absolute().as_uri() if source else ""
