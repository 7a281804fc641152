"""Read from where uv and Poetry take the packages of a project, if a table of theirs says it."""

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from lumicontainer.errors import Fault
from lumicontainer.packages.indexes import toml_table

_UV = "tool.uv.sources"
_POETRY = "tool.poetry.dependencies"
_PLACES = ("git", "url", "path", "source")
"""Keys of a dependency of Poetry that name a place."""
_SAME = "download.pytorch.org"
"""Has PyTorch's own packages, which images have."""


class ProjectSources:
    """Hold the sources of a project's packages."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        tool = toml_table(data, "tool")
        uv, poetry = toml_table(tool, "uv"), toml_table(tool, "poetry")
        rows = toml_table(poetry, "dependencies").items()
        of_poetry = {n: each for n, each in rows if _has_place(each)}
        of_uv = toml_table(uv, "sources")
        self._tables = {
            **dict.fromkeys(map(canonicalize_name, of_poetry), _POETRY),
            **dict.fromkeys(map(canonicalize_name, of_uv), _UV),
        }
        both = {**of_poetry, **of_uv}
        self._sources = {canonicalize_name(n): each for n, each in both.items()}
        indexes = [*_tables_of(uv.get("index")), *_tables_of(poetry.get("source"))]
        self._indexes = {str(each.get("name")): str(each.get("url")) for each in indexes}

    def place(self, text: str, folder: PurePath) -> str | Fault:
        """Return a requirement with the place that uv takes it from, or why it has no place.

        Paths count from the ``folder`` of the project.
        """
        try:
            read = Requirement(text)
        except InvalidRequirement:
            return text
        source = self._sources.get(canonicalize_name(read.name))
        if source is None or read.url or self._is_of_pytorch(source):
            return text
        url = _url(source, folder) if isinstance(source, dict) else ""
        if url:
            marker = f" ; {read.marker}" if read.marker else ""
            extras = f"[{','.join(sorted(read.extras))}]" if read.extras else ""
            return f"{read.name}{extras} @ {url}{marker}"
        table = self._tables[canonicalize_name(read.name)]
        why = f"{table} takes it from {self._words(source)}, and an index may have another package"
        return Fault(f"cannot take '{read.name}' from its source", why, _hint(read.name))

    def _is_of_pytorch(self, source: object) -> bool:
        rows = source if isinstance(source, list) else [source]
        named = [_index(each) for each in rows]
        return all(isinstance(n, str) and _SAME in self._indexes.get(n, "") for n in named)

    def _words(self, source: object) -> str:
        if isinstance(source, list):
            return "several places"
        if isinstance(source, dict) and source.get("workspace"):
            return "the workspace"
        named = _index(source)
        return f"the index {self._indexes.get(str(named), named)!r}" if named else "another place"


def _tables_of(value: object) -> list[Mapping[str, Any]]:
    """Return the tables of a list in TOML; none of another value."""
    rows = value if isinstance(value, list) else []
    return [each for each in rows if isinstance(each, dict)]


def _has_place(dependency: object) -> bool:
    rows = dependency if isinstance(dependency, list) else [dependency]
    return any(key in each for each in _tables_of(rows) for key in _PLACES)


def _index(source: object) -> object:
    """Return the name of the index that a source is; None if it is another."""
    return source.get("index", source.get("source")) if isinstance(source, dict) else None


def _url(source: Mapping[str, Any], folder: PurePath) -> str:
    """Return the URL of a source; empty if it has none, or one for some machines alone."""
    git, url, path = (source.get(each) for each in ("git", "url", "path"))
    below = source.get("subdirectory")
    fragment = f"#subdirectory={below}" if isinstance(below, str) else ""
    if {"marker", "markers", "extra", "group"} & {*source}:
        return ""
    if isinstance(git, str):
        revision = next((source[key] for key in ("rev", "tag", "branch") if key in source), "")
        return f"git+{git}{f'@{revision}' if revision else ''}{fragment}"
    if isinstance(url, str):
        return f"{url}{fragment}"
    return (folder / path).as_uri() if isinstance(path, str) else ""


def _hint(name: str) -> str:
    return f"take '{name}' out of the dependencies, and name its file, folder or repository"
