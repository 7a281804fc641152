"""Validate a document by the JSON Schema that it names."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator


def named_schema(path: Path) -> Path:
    """Return the path of the schema that the first line of a document names."""
    first = path.read_text().partition("\n")[0]
    match = re.fullmatch(r"# yaml-language-server: \$schema=(\S+)", first)
    assert match, f"{path} names no schema"
    return (path.parent / match[1]).resolve()


def schema_errors(path: Path) -> list[str]:
    """Return what the schema that a document names rejects in it."""
    return errors_of(path.read_text(), named_schema(path))


def errors_of(text: str, schema: Path) -> list[str]:
    """Return what a schema rejects in a text."""
    rules: dict[str, Any] = json.loads(schema.read_text())
    Draft202012Validator.check_schema(rules)
    errors = Draft202012Validator(rules).iter_errors(yaml.safe_load(text))
    return [f"{each.json_path}: {each.message}" for each in errors]
