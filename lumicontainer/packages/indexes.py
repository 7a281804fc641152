"""Read the indexes that settings choose: ``pip.conf``, ``uv.toml``, and tables of a project."""

import configparser
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from lumicontainer.packages.lines import Option
from lumicontainer.packages.toml import read_toml

SETTINGS = (
    *("default-index", "extra-index-url", "find-links", "index", "index-url"),
    *("no-index", "trusted-host"),
)
"""The options of pip and uv that choose indexes; settings and variables have the same names."""
_OFF = ("", "0", "false", "no", "off")
_OF_TOOLS = (("poetry", "source"), ("pdm", "source"))
"""The tables of a project that list indexes, each with a ``url``."""


def option_of_setting(key: str, value: str) -> Option | None:
    """Return the option that a setting stands for; None if it chooses no index."""
    name = key.lower().replace("_", "-")
    if name not in SETTINGS or value.lower() in _OFF:
        return None
    return Option(f"--{name}", "" if name == "no-index" else value)


def pip_indexes(text: str) -> Iterator[Option]:
    """Yield the indexes of a ``pip.conf``; raise ``configparser.Error`` for another text."""
    parser = configparser.RawConfigParser(strict=False)
    parser.read_string(text)
    for section in parser.sections():
        for key, value in parser.items(section):
            yield from _options(key, value.split() or [""])


def uv_indexes(text: str) -> Iterator[Option]:
    """Yield the indexes of a ``uv.toml``; raise ``TomlError`` for another text."""
    yield from _of_table(read_toml(text))


def project_indexes(data: Mapping[str, Any], *, explicit: bool = True) -> Iterator[Option]:
    """Yield the indexes that a ``pyproject.toml`` chooses for uv, Poetry and PDM.

    An ``explicit`` one is for packages that name it.
    """
    tool = toml_table(data, "tool")
    uv = dict(toml_table(tool, "uv"))
    if not explicit and isinstance(uv.get("index"), list):
        rows = uv["index"]
        uv["index"] = [
            each for each in rows if not (isinstance(each, dict) and each.get("explicit"))
        ]
    yield from _of_table(uv)
    for name, key in _OF_TOOLS:
        rows = toml_table(tool, name).get(key)
        yield from _options("index", map(_address, rows if isinstance(rows, list) else ()))


def other_indexes(indexes: Iterable[str | None]) -> Iterator[Option]:
    """Yield the indexes of a lock's packages, but the one that most of them come from."""
    counted = Counter(each for each in indexes if each)
    for each, _ in counted.most_common()[1:]:
        yield Option("--index", each)


def toml_table(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return a table in TOML; an empty one if the key has another value or none."""
    value = data.get(key)
    return value if isinstance(value, dict) else {}


def _of_table(data: Mapping[str, Any]) -> Iterator[Option]:
    for key, value in (*data.items(), *toml_table(data, "pip").items()):
        for each in value if isinstance(value, list) else [value]:
            is_default = key == "index" and isinstance(each, dict) and each.get("default")
            yield from _options("default-index" if is_default else key, [_address(each)])


def _address(value: object) -> str:
    address = value.get("url", "") if isinstance(value, dict) else value
    return str(address).lower() if isinstance(address, bool) else str(address)


def _options(key: str, values: Iterable[str]) -> Iterator[Option]:
    yield from filter(None, (option_of_setting(key, value) for value in values))
