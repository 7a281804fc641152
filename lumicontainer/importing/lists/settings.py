"""Find the indexes that files of settings choose: ``pip.conf``, ``uv.toml``, tables of a project.

Packages of these indexes may have the names of others in the site's index, so that an import says
each of them.
"""

import configparser
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from packaging.utils import canonicalize_name

from lumicontainer.importing.draft import FileLine, bounded, hide_passwords
from lumicontainer.importing.lists.requirements import add_option, index_option
from lumicontainer.importing.replacements import table
from lumicontainer.packages.lines import Option
from lumicontainer.packages.toml import read_toml

NAMES = _PIP, _UV = ("pip.conf", "uv.toml")
_OF_TOOLS = (("poetry", "source"), ("pdm", "source"))
"""The tables of a project that list indexes, each with a ``url``."""


def are_settings(path: str) -> bool:
    """Return whether pip or uv takes its settings from files of a name."""
    return PurePosixPath(path).name in NAMES


def chooses_index(text: str) -> bool:
    """Return whether a command names such a file, and a setting that chooses an index."""
    names = "|".join(each.replace("-", "[-_]") for each in table()["index_settings"])
    chosen = re.search(rf"(?i)(?<![\w-])(?:{names})\s*[=:]|\[index\]", text)
    return bool(chosen) and any(name in text for name in NAMES)


def add_settings(line: FileLine, path: str, content: bytes) -> bool:
    """Add the indexes that a file of settings chooses; return whether it chooses any.

    A file that cannot be read is refused, as it may choose some.
    """
    text = content.decode("utf-8", "replace")
    try:
        hide_passwords(line.file, [text])
        read = _pip_options if PurePosixPath(path).name == _PIP else _uv_options
        options = [*bounded(line.file, read(text), "setting")]
    except (ValueError, configparser.Error, RecursionError):
        line.refuse(f"it is no valid {PurePosixPath(path).name}, which may choose an index")
        return True
    for name, value in options:
        add_option(line, name, value)
    return bool(options)


def _pip_options(text: str) -> Iterator[Option]:
    parser = configparser.RawConfigParser(strict=False)
    parser.read_string(text)
    for section in parser.sections():
        for key, value in parser.items(section):
            yield from _option(key, value.split() or [""])


def _uv_options(text: str) -> Iterator[Option]:
    yield from uv_indexes(read_toml(text))


def uv_indexes(data: Mapping[str, Any]) -> Iterator[Option]:
    """Yield the indexes of a ``uv.toml``, or of the table ``tool.uv`` of a project."""
    pip = data.get("pip")
    for key, value in (*data.items(), *(pip.items() if isinstance(pip, dict) else ())):
        values = value if isinstance(value, list) else [value]
        yield from _option(key, (_address(each) for each in values))


def project_indexes(data: Mapping[str, Any]) -> Iterator[Option]:
    """Yield the indexes that ``pyproject.toml`` chooses for uv, Poetry and PDM."""
    tool = _table(data, "tool")
    yield from uv_indexes(_table(tool, "uv"))
    for name, key in _OF_TOOLS:
        rows = _table(tool, name).get(key)
        urls = map(_address, rows if isinstance(rows, list) else ())
        yield from _option("index", filter(None, urls))


def uv_sources(data: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return where uv takes packages of a project from, by their normal names."""
    rows = _table(_table(_table(data, "tool"), "uv"), "sources")
    # A list has one for each of several conditions.
    return {
        canonicalize_name(name): each if isinstance(each, dict) else {"several": each}
        for name, each in rows.items()
    }


def _table(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = data.get(key)
    return found if isinstance(found, dict) else {}


def other_indexes(indexes: Iterable[str | None]) -> Iterator[Option]:
    """Yield the indexes of a lock's packages, but the one that most of them come from."""
    counted = Counter(each for each in indexes if each)
    for each, _ in counted.most_common()[1:]:
        yield Option("--index", each)


def _address(value: object) -> str:
    found = value.get("url", "") if isinstance(value, dict) else value
    return str(found).lower() if isinstance(found, bool) else str(found)


def _option(key: str, values: Iterable[str]) -> Iterator[Option]:
    found = (index_option(f"global.{key}", value) for value in values)
    yield from filter(None, found)
