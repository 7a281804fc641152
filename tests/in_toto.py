"""The JSON Schema of in-toto statements with SLSA's predicate, as their specifications say.

Sources: github.com/in-toto/attestation, spec/v1 (statement.md, resource_descriptor.md,
digest_set.md) and slsa.dev/spec/v1.0/provenance.
"""

from typing import Any

TEXT: dict[str, Any] = {"type": "string", "minLength": 1}
URI = {"type": "string", "pattern": "^[A-Za-z][A-Za-z0-9+.-]*:."}
DIGEST_SET = {
    "type": "object",
    "minProperties": 1,
    "additionalProperties": {"type": "string", "pattern": "^[0-9a-f]+$"},
    "properties": {
        "sha256": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
        "gitCommit": {"type": "string", "pattern": "^[0-9a-f]{40}$"},
    },
}
DESCRIPTOR = {
    "type": "object",
    "properties": {
        "name": TEXT,
        "uri": URI,
        "digest": DIGEST_SET,
        "content": TEXT,
        "downloadLocation": URI,
        "mediaType": TEXT,
        "annotations": {"type": "object"},
    },
    "anyOf": [{"required": [each]} for each in ("uri", "digest", "content")],
    "additionalProperties": False,
}
DESCRIPTORS = {"type": "array", "items": DESCRIPTOR}
BUILD_DEFINITION = {
    "type": "object",
    "properties": {
        "buildType": URI,
        "externalParameters": {"type": "object", "minProperties": 1},
        "internalParameters": {"type": "object"},
        "resolvedDependencies": DESCRIPTORS,
    },
    "required": ["buildType", "externalParameters"],
    "additionalProperties": False,
}
BUILDER = {
    "type": "object",
    "properties": {
        "id": URI,
        "version": {"type": "object", "additionalProperties": TEXT},
        "builderDependencies": DESCRIPTORS,
    },
    "required": ["id"],
    "additionalProperties": False,
}
RUN_DETAILS = {
    "type": "object",
    "properties": {"builder": BUILDER, "metadata": {"type": "object"}, "byproducts": DESCRIPTORS},
    "required": ["builder"],
    "additionalProperties": False,
}
STATEMENT = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {
        "_type": {"const": "https://in-toto.io/Statement/v1"},
        "subject": {
            "type": "array",
            "minItems": 1,
            "items": {**DESCRIPTOR, "required": ["name", "digest"]},
        },
        "predicateType": {"const": "https://slsa.dev/provenance/v1"},
        "predicate": {
            "type": "object",
            "properties": {"buildDefinition": BUILD_DEFINITION, "runDetails": RUN_DETAILS},
            "required": ["buildDefinition", "runDetails"],
            "additionalProperties": False,
        },
    },
    "required": ["_type", "subject", "predicateType", "predicate"],
    "additionalProperties": False,
}
