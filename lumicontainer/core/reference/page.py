"""Return the manual's reference of all keys, from the JSON Schemas.

``python -m lumicontainer.core.reference.page`` prints it. ``make schemas`` writes it to
``docs/keys.md``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

from lumicontainer.core.reference.json_schema import READERS, is_record
from lumicontainer.core.yaml.readers import Schema, schema_of

_HEAD = """\
# Table of keys

`make schemas` writes this page from the readers of the documents.
"""
_HEADINGS = {
    "layer": "layer.yaml",
    "recipe": "Recipe",
    "profile": "Profile",
    "platform": "Platform",
    "check": "Checks",
    "rules": "Rules",
    "lock": "Lock",
}


def page() -> str:
    """Return the page: a section for each document, and one for each record in it."""
    text, shown = _HEAD, set[str]()
    for name, heading in _HEADINGS.items():
        root = schema_of(READERS[name])
        text += f"\n## {heading}\n\n{_table(root, {})}"
        for record in _records(root):
            title = _title(record)
            if title not in shown:
                shown.add(title)
                text += f"\n### {title}\n\n{_table(record, root['properties'])}"
    return text


def _records(part: Any) -> Iterator[Schema]:
    """Yield the records below a part of a schema, from the outside in."""
    for value in (
        part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    ):
        if isinstance(value, dict) and is_record(value):
            yield value
        yield from _records(value)


def _table(record: Schema, known: Schema) -> str:
    """Return the table of a record's keys; keys that are ``known`` are only named below it."""
    keys = record["properties"]
    same = [name for name, value in keys.items() if _same(value, known.get(name))]
    text = "| key | type | default | meaning |\n|---|---|---|---|\n"
    for name, value in keys.items():
        if name not in same:
            default = "required" if name in record["required"] else _default(value)
            text += f"| `{name}` | {_type(value)} | {default} | {value['description']} |\n"
    named = ", ".join(f"`{name}`" for name in same)
    return text + (f"\nThe keys {named} have the meaning that they have above.\n" if same else "")


def _same(one: Schema, other: Schema | None) -> bool:
    return json.dumps(one) == json.dumps(other)


def _default(value: Schema) -> str:
    return f"`{json.dumps(value['default']).strip(chr(34))}`" if "default" in value else ""


def _type(value: Schema) -> str:
    if is_record(value):
        title = _title(value)
        return f"[{title[0].lower()}{title[1:]}](#{title.lower().replace(' ', '-')})"
    if "enum" in value:
        return ", ".join(f"`{each}`" for each in value["enum"])
    if "oneOf" in value:
        return " or ".join(_type(each) for each in value["oneOf"])
    if value["type"] == "array":
        return f"list: {_type(value['items'])}"
    if value["type"] == "object":
        key = _type(value.get("propertyNames", {"type": "string"})).replace("text", "name")
        return f"{key} → {_type(value['additionalProperties'])}"
    return (
        "value" if isinstance(value["type"], list) else str(value["type"]).replace("string", "text")
    )


def _title(record: Schema) -> str:
    title: str = record["title"]
    return title[0].upper() + title[1:]


if __name__ == "__main__":
    sys.stdout.write(page())
