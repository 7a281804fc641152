"""Return the JSON Schema of each kind of document, from the readers that read it.

``python -m lumicontainer.core.reference.json_schema NAME`` prints one of them. ``make schemas``
writes all to ``recipes/schemas``, where editors and other programs find them.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from typing import Any

from lumicontainer.core.lock.lockfile import LOCK
from lumicontainer.core.model.check import CHECK
from lumicontainer.core.model.layer import LAYER
from lumicontainer.core.model.platform import PLATFORM
from lumicontainer.core.model.recipe import PROFILE, RECIPE
from lumicontainer.core.rules.rules import RULES
from lumicontainer.core.yaml.readers import Reader, Schema, schema_of

READERS: dict[str, Reader[Any]] = {
    "check": CHECK,
    "layer": LAYER,
    "lock": LOCK,
    "platform": PLATFORM,
    "profile": PROFILE,
    "recipe": RECIPE,
    "rules": RULES,
}
"""The reader of each kind of document; of a check it is the comment at its head."""


def text_of(name: str) -> str:
    """Return the text of one schema's file."""
    return json.dumps(document(name), indent=2) + "\n"


def document(name: str) -> Schema:
    """Return the JSON Schema of one kind of document; repeated parts stand in ``$defs``."""
    schema = {**schema_of(READERS[name]), "title": name}
    found: Counter[str] = Counter()
    _count(schema, found)
    definitions: dict[str, Schema] = {}
    body = {key: _shared(value, found, definitions) for key, value in schema.items()}
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return {**head, **body, **({"$defs": definitions} if definitions else {})}


def _count(part: Any, found: Counter[str]) -> None:
    """Count how often each record stands in a schema."""
    if isinstance(part, list):
        for each in part:
            _count(each, found)
    elif isinstance(part, dict):
        if "title" in part and "properties" in part:
            found[json.dumps(part)] += 1
        for each in part.values():
            _count(each, found)


def _shared(part: Any, found: Counter[str], definitions: dict[str, Schema]) -> Any:
    """Return a part of a schema with references in place of repeated records."""
    if isinstance(part, list):
        return [_shared(each, found, definitions) for each in part]
    if not isinstance(part, dict):
        return part
    body = {key: _shared(value, found, definitions) for key, value in part.items()}
    if "properties" not in part or found[json.dumps(part)] < 2:
        return body
    name = part["title"].removeprefix("a ").removeprefix("an ").replace(" ", "-")
    while definitions.setdefault(name, body) != body:
        name += "-2"
    return {"$ref": f"#/$defs/{name}"}


if __name__ == "__main__":
    sys.stdout.write(text_of(sys.argv[1]))
