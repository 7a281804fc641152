"""Differences of two images as text: values for people, and Markdown for release notes."""

import re
from collections.abc import Iterator
from typing import Any

from lumicontainer.system import units
from lumicontainer.system.terminal.output import line
from lumicontainer.trust.differences import Differences


def shown_value(value: Any) -> str:
    """Return a value of one side for people; empty if the side has none."""
    if value is None:
        return ""
    if isinstance(value, dict):
        size = units.size(value["bytes"]) if "bytes" in value else ""
        return ", ".join(filter(None, (value.get("version", ""), size, value.get("key", ""))))
    return units.size(value) if isinstance(value, int) else str(value)


def markdown(result: Differences) -> str:
    """Return differences as Markdown, with a table for each section."""
    return "".join(f"{row}\n" for row in _rows(result))


def _rows(result: Differences) -> Iterator[str]:
    yield f"## From {_code(result.before)} to {_code(result.after)}"
    if not result.sections:
        yield "\nNo differences."
    for section, changes in result.sections.items():
        yield f"\n### {section[0].upper()}{section[1:]}\n"
        yield "| name | before | after |\n|---|---|---|"
        for each in changes:
            cells = (each.name, shown_value(each.before), shown_value(each.after))
            yield f"| {' | '.join(map(_cell, cells))} |"


def _cell(text: str) -> str:
    return _code(text).replace("|", "\\|")


def _code(text: str) -> str:
    """Return text as code: what an image holds becomes no link, no picture and no mention."""
    text = line(text)
    fence = "`" * (max(map(len, re.findall("`+", text)), default=0) + 1)
    space = " " if text[:1] == "`" or text[-1:] == "`" else ""
    return f"{fence}{space}{text}{space}{fence}" if text else ""
