"""Differences of two images as text for people, and as Markdown for release notes."""

import re
from collections.abc import Iterator
from typing import Any

from lumicontainer.system import units
from lumicontainer.system.terminal.output import line
from lumicontainer.system.terminal.text import TextPart, TextTable
from lumicontainer.trust.differences import RULES, Change, Differences


def plain_text(result: Differences) -> Iterator[TextPart]:
    """Yield differences for people, with a table for each section."""
    if not result.sections:
        yield "no differences"
    for section, changes in result.sections.items():
        yield section
        yield TextTable([(f"{_mark(each)} {each.name}", _words(section, each)) for each in changes])


def _mark(change: Change) -> str:
    return "+" if change.before is None else "-" if change.after is None else "~"


def _words(section: str, change: Change) -> str:
    before, after = _shown(change.before), _shown(change.after)
    if section == RULES:
        return f"begins to hold: {after}" if change.before is None else f"ceases to hold: {before}"
    if change.before is None or change.after is None:
        return after if change.before is None else before
    return f"{before or '(none)'} -> {after or '(none)'}"


def _shown(value: Any) -> str:
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
            cells = (each.name, _shown(each.before), _shown(each.after))
            yield f"| {' | '.join(map(_cell, cells))} |"


def _cell(text: str) -> str:
    return _code(text).replace("|", "\\|")


def _code(text: str) -> str:
    """Return text as code: what an image holds becomes no link, no picture and no mention."""
    text = line(text)
    fence = "`" * (max(map(len, re.findall("`+", text)), default=0) + 1)
    space = " " if text[:1] == "`" or text[-1:] == "`" else ""
    return f"{fence}{space}{text}{space}{fence}" if text else ""
