"""State where an image comes from: an in-toto statement with SLSA's predicate of provenance.

Sources: in-toto.io/Statement/v1, slsa.dev/provenance/v1. The subjects are the parts of the image's
file system, whose bytes ``dd`` and ``sha256sum`` compare. There is no time and no host in it, so
that the same inputs make the same bytes.
"""

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from lumicontainer import __version__
from lumicontainer.constants import STEM
from lumicontainer.core.plan.records import resolved_record
from lumicontainer.core.plan.steps import Plan
from lumicontainer.core.resolve.decisions import Resolved
from lumicontainer.core.rules.rules import HOLDS
from lumicontainer.errors import InputError, Problem
from lumicontainer.image import inspect, records, sif
from lumicontainer.image.digests import Part
from lumicontainer.image.records import DIGEST, LINE, NAME, TEXT, Table
from lumicontainer.trust.dependencies import Descriptor, dependencies_of

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://slsa.dev/provenance/v1"
BUILD, EXTEND = "urn:lumicontainer:build:1", "urn:lumicontainer:extend:1"
_EXTEND = ["lumicontainer", "extend"]
_BUILDER = "urn:lumicontainer:builder"
_SIZE = records.Kind("a number of at least 0", frozenset({int}), range=(0, 1 << 62))
_RECIPE = records.Kind("the name of a recipe", frozenset({str}), rf"(?!.*\.ya?ml$){STEM}")
"""An image names no file of a recipe: ``rebuild`` would build a stranger's."""
_DESCRIPTOR: records.Schema = {
    "uri?": LINE,
    "name?": LINE,
    "digest?": Table(LINE, DIGEST),
    "annotations?": Table(LINE, LINE),
}
_LAYER: records.Schema = {
    "name": LINE,
    "digest": Table(LINE, DIGEST),
    "annotations": {"key": DIGEST, "bytes": _SIZE},
}
_RULE: records.Schema = {"id": LINE, "level": LINE, "message": LINE}
_PARAMETERS: records.Schema = {
    "recipe?": _RECIPE,
    "platform?": NAME,
    "profile?": NAME,
    "values?": [LINE],
    "lock?": TEXT,
    "image?": LINE,
}
_DEFINITION: records.Schema = {
    "buildType": LINE,
    "externalParameters": _PARAMETERS,
    "internalParameters?": {"rules?": [_RULE], "command?": LINE},
    "resolvedDependencies?": [_DESCRIPTOR],
}
SCHEMA: records.Schema = {
    "_type": frozenset({STATEMENT}),
    "predicateType": frozenset({PREDICATE}),
    "subject": [{"name": LINE, "digest": Table(LINE, DIGEST)}],
    "predicate": {
        "buildDefinition": _DEFINITION,
        "runDetails": {"builder": {"id": LINE}, "byproducts?": [_LAYER]},
    },
}


class PackedLayer(NamedTuple):
    """Hold one layer of an image: the key of its step, the sha256 and the size of its squashfs."""

    name: str
    key: str
    sha256: str
    size: int

    def as_data(self) -> dict[str, Any]:
        """Return it as a descriptor."""
        annotations = {"key": self.key, "bytes": self.size}
        return {"name": self.name, "digest": {"sha256": self.sha256}, "annotations": annotations}


class Provenance(NamedTuple):
    """Hold the statement of an image."""

    data: Mapping[str, Any]

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Return what a user asked for: recipe, platform, profile, values and lock."""
        return self._definition["externalParameters"]  # type: ignore[no-any-return]

    @property
    def build_type(self) -> str:
        """Return ``BUILD`` or ``EXTEND``."""
        return str(self._definition["buildType"])

    @property
    def dependencies(self) -> Sequence[Descriptor]:
        """Return what the image takes from elsewhere."""
        return self._definition.get("resolvedDependencies", ())  # type: ignore[no-any-return]

    @property
    def rules(self) -> Mapping[str, str]:
        """Return the messages of the rules that held when the image was built, by id."""
        return {row["id"]: row["message"] for row in self.rule_rows}

    @property
    def rule_rows(self) -> Sequence[Mapping[str, str]]:
        """Return the rules that held when the image was built."""
        return self._definition.get("internalParameters", {}).get("rules", ())  # type: ignore[no-any-return]

    @property
    def command(self) -> str:
        """Return the command that made the image."""
        return str(self._definition.get("internalParameters", {}).get("command", ""))

    @property
    def layers(self) -> Sequence[PackedLayer]:
        """Return the layers, the lowest first."""
        rows = self.data["predicate"]["runDetails"].get("byproducts", ())
        return [
            PackedLayer(
                row["name"],
                row["annotations"]["key"],
                row["digest"].get("sha256", ""),
                row["annotations"]["bytes"],
            )
            for row in rows
        ]

    @property
    def _definition(self) -> Mapping[str, Any]:
        return self.data["predicate"]["buildDefinition"]  # type: ignore[no-any-return]


def build_provenance(
    plan: Plan, layers: Iterable[PackedLayer], parts: Iterable[Part]
) -> Provenance:
    """Return the statement of an image that a plan made of ``layers``."""
    resolved = plan.resolved
    record = resolved_record(resolved)
    parameters = _filled(
        {
            "recipe": resolved.recipe.name,
            "platform": resolved.platform.name,
            "profile": record.get("profile", ""),
            "values": list(_options(resolved)),
            "lock": resolved.lock,
        }
    )
    held = [each.rule for each in resolved.findings if each.state == HOLDS]
    rules = [{"id": each.id, "level": each.level, "message": each.message} for each in held]
    layer_values = {name: each["parameters"] for name, each in record["layers"].items()}
    internal = {
        "command": build_command(parameters),
        "parameters": {name: values for name, values in layer_values.items() if values},
        "rules": rules,
    }
    rows = dependencies_of(resolved)
    return statement(BUILD, parameters, internal, rows, layers=layers, parts=parts)


def statement(
    kind: str,
    parameters: Mapping[str, Any],
    internal: Mapping[str, Any],
    rows: Sequence[Descriptor],
    *,
    layers: Iterable[PackedLayer],
    parts: Iterable[Part],
) -> Provenance:
    """Return a statement about the parts of an image."""
    definition = {
        "buildType": kind,
        "externalParameters": parameters,
        "internalParameters": internal,
        "resolvedDependencies": rows,
    }
    details = {
        "builder": {"id": _BUILDER, "version": {"lumicontainer": __version__}},
        "byproducts": [each.as_data() for each in layers],
    }
    subjects = [
        {"name": f"{each.name}:{each.offset}:{each.size}", "digest": {"sha256": each.sha256}}
        for each in parts
    ]
    return Provenance(
        {
            "_type": STATEMENT,
            "subject": subjects,
            "predicateType": PREDICATE,
            "predicate": {"buildDefinition": definition, "runDetails": details},
        }
    )


def content(provenance: Provenance) -> bytes:
    """Return the bytes of a statement."""
    return f"{json.dumps(provenance.data, indent=1, ensure_ascii=False)}\n".encode()


def build_command(parameters: Mapping[str, Any]) -> str:
    """Return the command that builds an image of these parameters."""
    words = ["lumicontainer", "build", parameters["recipe"], "--platform", parameters["platform"]]
    if parameters.get("profile"):
        words += ["--profile", parameters["profile"]]
    for value in parameters.get("values", ()):
        words += ["--set", value]
    return shlex.join([*words, *(["--locked"] if parameters.get("lock") else [])])


def extend_command(provenance: Provenance) -> str:
    """Return the command that extended an image, or its form if the image states another one.

    The image may be a stranger's, and users paste the command.
    """
    with suppress(ValueError):
        words = shlex.split(provenance.command)
        if words[:2] == _EXTEND:
            return shlex.join(words)
    return "lumicontainer extend IMAGE PACKAGE --into FILE"


def read_provenance(image: Path) -> Provenance | None:
    """Return the statement of an image; None without one. Raise ``InputError`` if it is invalid."""
    text = inspect.object_bytes(image, sif.PROVENANCE)
    if text is None:
        return None
    try:
        return Provenance(records.parse(text, SCHEMA))
    except records.RecordError as error:
        hint = "lumicontainer inspect --check finds changed bytes; rebuild the image"
        what, where = "the provenance of the image is damaged", f"{image}: {sif.PROVENANCE}"
        raise InputError(Problem(what, where, str(error), hint)) from error


def _options(resolved: Resolved) -> Iterable[str]:
    for layer in resolved.included():
        for each in layer.settings:
            if each.origin == "option":
                yield f"{layer.name}.{each.name}={_text(each.value)}"


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _filled(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value}
