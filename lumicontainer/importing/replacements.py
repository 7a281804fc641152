"""Look up what takes the place of packages, images, variables and commands of other files."""

import functools
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml


@functools.cache
def table() -> Mapping[str, Any]:
    """Return the table of replacements."""
    text = Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")
    rows: Mapping[str, Any] = yaml.safe_load(text)
    return rows


def replacement_for(kind: str, name: str, accelerator: str = "") -> Mapping[str, Any]:
    """Return the first row of a kind that matches a name; an empty one if none does."""
    rows = (row for row in table()[kind] if row.get("accelerator", accelerator) == accelerator)
    matching = (row for row in rows if any(fnmatchcase(name, each) for each in row["names"]))
    return next(matching, {})
