"""Read requirements in TOML: a project's (PEP 621), its build's (PEP 518), a lock's (PEP 751)."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lumicontainer.errors import Fault, Problems
from lumicontainer.extending.reading.indexes import IndexOption, read_index_option
from lumicontainer.extending.reading.lines import PackageLine
from lumicontainer.packages.indexes import project_indexes
from lumicontainer.packages.project import BUILD, DEPENDENCIES, listed_requirements
from lumicontainer.packages.project_sources import ProjectSources
from lumicontainer.packages.pylock import PylockError, hashes_of, read_pylock, requirement_of
from lumicontainer.packages.toml import TomlError, read_toml

_NAMES = {"--index": "--extra-index-url", "--default-index": "--index-url"}
"""By option of uv: the option of pip."""


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
        sources, folder = ProjectSources(data), Path(file).parent.absolute()
        for line in _listed(data, DEPENDENCIES, file, problems):
            place = sources.place(line.text, folder)
            if isinstance(place, Fault):
                problems.add(place.what, file, why=place.why, hint=place.hint)
            else:
                yield line._replace(text=place)


def indexes(text: str, file: Path, problems: Problems) -> Iterator[IndexOption]:
    """Yield the indexes that a project chooses for all packages; the file was read before."""
    for name, value in project_indexes(_read(text, str(file), Problems()) or {}, explicit=False):
        option = read_index_option(_NAMES.get(name, name), value, file)
        if isinstance(option, Fault):
            problems.add(option.what, str(file), why=option.why, hint=option.hint)
        elif option:
            yield option


def build_requirements(text: str, file: str, problems: Problems) -> Iterator[PackageLine]:
    """Yield what the build of a project needs."""
    data = _read(text, file, problems) or {}
    for each in _listed(data, BUILD, file, problems):
        yield each
        if each.text.startswith("hatchling"):  # Its code needs it.
            yield PackageLine("editables")


def _read(text: str, file: str, problems: Problems) -> Mapping[str, Any] | None:
    try:
        return read_toml(text)
    except TomlError as error:
        problems.add("this is not TOML", file, why=str(error), hint="correct the line")
        return None


def _listed(
    data: Mapping[str, Any], place: tuple[str, str], file: str, problems: Problems
) -> Iterator[PackageLine]:
    for each in listed_requirements(data, place):
        if isinstance(each, Fault):
            problems.add(each.what, file, hint=each.hint)
        else:
            yield PackageLine(each, file)


def _locked(text: str, file: str, problems: Problems) -> Iterator[PackageLine]:
    try:
        lock = read_pylock(text)
    except PylockError as error:
        hint = "let uv, pip or pdm write the lock"
        problems.add("this is not a lock of PEP 751", file, why=str(error), hint=hint)
        return
    folder = Path(file).parent.absolute()
    for package in lock.packages:
        line = requirement_of(package, lock.default_groups or (), folder)
        if isinstance(line, Fault):
            problems.add(line.what, file, why=line.why, hint=line.hint)
        else:
            yield PackageLine(line, file, tuple(hashes_of(package)))
