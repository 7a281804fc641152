"""Read the ``pyproject.toml`` of a project: its name (PEP 621) and lists of requirements."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from lumicontainer.core.model.requirements import NAME
from lumicontainer.errors import Fault

DEPENDENCIES = ("project", "dependencies")
BUILD = ("build-system", "requires")
_NAMED = (("project",), ("tool", "poetry"))
"""The tables that state the name of a project."""


def listed_requirements(data: Mapping[str, Any], place: tuple[str, str]) -> Iterator[str | Fault]:
    """Yield the requirements in a list of a table, and what is wrong with it."""
    table, key = place
    section, name = data.get(table, {}), f"{table}.{key}"
    hint = f'write {key} = ["NAME==VERSION"]'
    if not isinstance(section, dict):
        yield Fault(f"expected a table '{table}', got {section!r}", "", f"write [{table}]")
        return
    listed = section.get(key, [])
    if not isinstance(listed, list):
        yield Fault(f"expected a list '{name}', got {listed!r}", "", hint)
        return
    for each in listed:
        is_text = isinstance(each, str)
        yield each if is_text else Fault(f"expected text in '{name}', got {each!r}", "", hint)


def stated_name(data: Mapping[str, Any]) -> str:
    """Return the name of a project; empty if only its code knows it."""
    for tables in _NAMED:
        section: Any = data
        for table in tables:
            section = section.get(table) if isinstance(section, dict) else None
        name = section.get("name") if isinstance(section, dict) else None
        if isinstance(name, str) and re.fullmatch(NAME, name):
            return name
    return ""
