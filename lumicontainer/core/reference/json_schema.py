"""Return the JSON Schema of each kind of document, from the readers that read it.

``python -m lumicontainer.core.reference.json_schema NAME`` prints one of them. ``make schemas``
writes all to ``recipes/schemas``, where editors and other programs find them.
"""

from __future__ import annotations

import json
import sys
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
    """Return the JSON Schema of one kind of document; the records in it stand in ``$defs``."""
    schema, definitions = schema_of(READERS[name]), dict[str, Schema]()
    body = {key: _referring(value, definitions) for key, value in schema.items()}
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return {**head, **body, "title": name, **({"$defs": definitions} if definitions else {})}


def _referring(part: Any, definitions: dict[str, Schema]) -> Any:
    """Return a part of a schema with references in place of records."""
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


if __name__ == "__main__":
    sys.stdout.write(text_of(sys.argv[1]))
