"""Read from where uv takes the packages of a project: the table ``tool.uv.sources``."""

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from lumicontainer.errors import Fault
from lumicontainer.packages.indexes import toml_table

_TABLE = "tool.uv.sources"
_SAME = "download.pytorch.org"
"""Has PyTorch's own packages, which images have."""


class UvSources:
    """Hold the sources of a project's packages."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        uv = toml_table(toml_table(data, "tool"), "uv")
        self._sources = {
            canonicalize_name(n): each for n, each in toml_table(uv, "sources").items()
        }
        rows = uv.get("index")
        listed = [each for each in rows if isinstance(each, dict)] if isinstance(rows, list) else []
        self._indexes = {str(each.get("name")): str(each.get("url")) for each in listed}

    def place(self, text: str, folder: PurePath) -> str | Fault:
        """Return a requirement with the place that uv takes it from, or why there is none.

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
        why = f"{_TABLE} takes it from {self._words(source)}, and an index may have another package"
        return Fault(f"cannot take '{read.name}' from its source", why, _hint(read.name))

    def _is_of_pytorch(self, source: object) -> bool:
        rows = source if isinstance(source, list) else [source]
        named = [each.get("index") if isinstance(each, dict) else None for each in rows]
        return all(isinstance(n, str) and _SAME in self._indexes.get(n, "") for n in named)

    def _words(self, source: object) -> str:
        if isinstance(source, list):
            return "several places"
        if isinstance(source, dict) and source.get("workspace"):
            return "the workspace"
        named = source.get("index") if isinstance(source, dict) else None
        return f"the index {self._indexes.get(str(named), named)!r}" if named else "another place"


def _url(source: Mapping[str, Any], folder: PurePath) -> str:
    """Return the URL of a source; empty if it has none, or one for some machines alone."""
    git, url, path = (source.get(each) for each in ("git", "url", "path"))
    below = source.get("subdirectory")
    fragment = f"#subdirectory={below}" if isinstance(below, str) else ""
    if "marker" in source or "extra" in source or "group" in source:
        return ""
    if isinstance(git, str):
        revision = next((source[key] for key in ("rev", "tag", "branch") if key in source), "")
        return f"git+{git}{f'@{revision}' if revision else ''}{fragment}"
    if isinstance(url, str):
        return f"{url}{fragment}"
    return (folder / path).as_uri() if isinstance(path, str) else ""


def _hint(name: str) -> str:
    return f"take '{name}' out of the dependencies, and name its file, folder or repository"
