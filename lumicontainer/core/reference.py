"""The JSON Schemas of all documents, and the table of keys in the manual, from the readers.

``python -m lumicontainer.core.reference NAME`` prints a schema, or the page ``keys``. ``make
schemas`` writes the schemas to ``recipes/schemas`` and the page to ``docs/keys.md``.
"""

import json
import sys
from collections.abc import Iterator
from typing import Any

from lumicontainer.core.lock import LOCK
from lumicontainer.core.model.check import CHECK
from lumicontainer.core.model.layer import LAYER
from lumicontainer.core.model.platform import PLATFORM
from lumicontainer.core.model.recipe import PROFILE, RECIPE
from lumicontainer.core.rules.rules import RULES
from lumicontainer.core.yaml.readers import Reader, Schema, schema_of

READERS: dict[str, Reader[Any]] = {
    "layer": LAYER,
    "recipe": RECIPE,
    "profile": PROFILE,
    "platform": PLATFORM,
    "check": CHECK,
    "rules": RULES,
    "lock": LOCK,
}
"""The reader of each kind of document, in the page's order; of a check it is the head's comment."""


def schema_text(name: str) -> str:
    """Return the text of one schema's file."""
    return json.dumps(document(name), indent=2) + "\n"


def document(name: str) -> Schema:
    """Return the JSON Schema of one kind of document; the records in it stand in ``$defs``."""
    schema, definitions = schema_of(READERS[name]), dict[str, Schema]()
    body = {key: _referring(value, definitions) for key, value in schema.items()}
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return {**head, **body, "title": name, **({"$defs": definitions} if definitions else {})}


def _referring(part: Any, definitions: dict[str, Schema]) -> Any:
    if isinstance(part, list):
        return [_referring(each, definitions) for each in part]
    if not isinstance(part, dict):
        return part
    body = {key: _referring(value, definitions) for key, value in part.items()}
    if not is_record(part):
        return body
    name = part["title"].removeprefix("a ").removeprefix("an ").replace(" ", "-")
    text = {"description": body.pop("description")} if "description" in part else {}
    assert definitions.setdefault(name, body) == body
    return {"$ref": f"#/$defs/{name}", **text}


def is_record(part: Schema) -> bool:
    """Return whether a part of a schema is a mapping with known keys."""
    return "title" in part and "properties" in part


_HEAD = """\
# Table of keys

`make schemas` writes this page from the readers of the documents.
"""
_HEADINGS = {"layer": "layer.yaml", "check": "Checks"}


def page() -> str:
    """Return the page: a section for each document, and one for each record in it."""
    text, shown = _HEAD, set[str]()
    for name, reader in READERS.items():
        root = schema_of(reader)
        text += f"\n## {_HEADINGS.get(name, name.capitalize())}\n\n{_table(root, {})}"
        for record in _records(root):
            title = _title(record)
            if title not in shown:
                shown.add(title)
                text += f"\n### {title}\n\n{_table(record, root['properties'])}"
    return text


def _records(part: Any) -> Iterator[Schema]:
    for value in (
        part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    ):
        if isinstance(value, dict) and is_record(value):
            yield value
        yield from _records(value)


def _table(record: Schema, known: Schema) -> str:
    """Return the table of a record's keys; keys that are ``known`` are only named below it."""
    keys = record["properties"]
    same = [name for name, value in keys.items() if value == known.get(name)]
    text = "| key | type | default | meaning |\n|---|---|---|---|\n"
    for name, value in keys.items():
        if name not in same:
            default = "required" if name in record["required"] else _default(value)
            text += f"| `{name}` | {_type(value)} | {default} | {value['description']} |\n"
    named = ", ".join(f"`{name}`" for name in same)
    return text + (f"\nThe keys {named} have the meaning that they have above.\n" if same else "")


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
    sys.stdout.write(page() if sys.argv[1] == "keys" else schema_text(sys.argv[1]))
