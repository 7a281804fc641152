"""The JSON Schemas come from the readers, and reject what the readers reject."""

import re
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from lumicontainer.core.catalog import shipped_folder
from lumicontainer.core.reference import READERS, document, page, schema_text
from lumicontainer.core.yaml.parse import parse_yaml
from lumicontainer.errors import Problems

from ...conftest import ROOT
from ...schemas import errors_of, named_schema, schema_errors

pytestmark = pytest.mark.slow

SCHEMAS = shipped_folder("recipes") / "schemas"
SHIPPED = sorted(
    path
    for folder in ("recipes", "envs")
    for path in (ROOT / folder).rglob("*.yaml")
    if "checks" not in path.parts
)
CACHE = "name: A, folder: a, storage: disk, reason: r, source: s"
RULE = "id: a, level: error, message: m, reason: r, source: s, hint: h"


@pytest.mark.parametrize("name", READERS)
def test_the_shipped_schema_is_the_readers_own_and_accepts_anything_nowhere(name: str) -> None:
    text = schema_text(name)
    assert (SCHEMAS / f"{name}.json").read_text() == text, "run: make schemas"
    assert not re.search(r": \{\}[,\n]", text)


@pytest.mark.parametrize("name", READERS)
def test_each_default_is_a_value_that_its_key_can_have(name: str) -> None:
    schema = document(name)
    records = [schema, *schema.get("$defs", {}).values()]
    keys = [each for record in records for each in record.get("properties", {}).values()]
    defaults = [(each["default"], each) for each in keys if "default" in each]
    assert [pair for pair in defaults if not Draft202012Validator(pair[1]).is_valid(pair[0])] == []


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_shipped_document_names_its_schema_and_satisfies_it(path: Path) -> None:
    folder = path.parent.parent.name if path.name == "layer.yaml" else path.parent.name
    kind = {"envs": "platform"}.get(folder, folder.removesuffix("s"))
    kind = "rules" if path.name == "rules.yaml" else kind
    assert named_schema(path) == SCHEMAS / f"{kind}.json"
    assert schema_errors(path) == []


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("recipe", "summary: x\nbase: debian\n"),
        ("recipe", "summary: x\nbase: debian\nlayer: [python]\nlayers: []\n"),
        ("recipe", "summary: x\nbase: Debian\nlayers: []\n"),
        ("recipe", "summary: x\nbase: debian\nlayers: [{python: {}, rocm: {}}]\n"),
        ("recipe", "summary: 3.10\nbase: debian\nlayers: []\n"),
        ("layer", "summary: x\nverison: '1'\n"),
        ("layer", "summary: x\nversions: {2.1: {}}\nversion: 2.1\n"),
        ("layer", "summary: x\nparameters: {a: {type: float, default: x}}\n"),
        ("layer", "summary: x\nvariants: {cuda: {}}\n"),
        ("layer", "summary: x\nsources: [{git: 'https://a.example/b', folder: b}]\n"),
        ("layer", "summary: x\nsources: [{url: 'https://a.example', file: x, sha256: '12'}]\n"),
        ("layer", "summary: x\nbinds: [{path: opt, reason: it is there}]\n"),
        ("layer", "summary: x\nenvironment: {PATH: /opt}\n"),
        ("layer", "summary: x\npackages: {python: ['git+https://a.example/b']}\n"),
        ("profile", "summary: x\naccelerator: gpu\n"),
        ("profile", "summary: x\naccelerator: cpu\nvalues: {python: 3}\n"),
        ("platform", "summary: x\naccelerator: cpu\ngpus: [{pci: c1, cores: '1-7', numa: 0}]\n"),
        ("platform", "summary: x\naccelerator: cpu\nengine: docker\n"),
        ("platform", f"summary: x\naccelerator: cpu\ncaches: [{{{CACHE}}}]\n"),
        ("rules", f"rules: [{{{RULE}}}]\n"),
        ("rules", f"rules: [{{{RULE}, when: {{}}}}]\n"),
        ("lock", "recipe: a\nplatform: b\nlayers: {c: [{apt: x}]}\n"),
        ("lock", "recipe: a\nplatform: b\nlayers: {c: [{apt: x, git: y, pin: z}]}\n"),
        ("check", "summary: x\nhint: y\nlevel: slow\n"),
        ("check", "summary: x\nhint: y\nthresholds: {a: {unit: s, source: z, minimum: '1'}}\n"),
    ],
)
def test_a_wrong_document_is_rejected_by_its_reader_and_its_schema(kind: str, text: str) -> None:
    problems = Problems()
    root = parse_yaml(text, "x.yaml", problems)
    assert root is not None
    READERS[kind](root, problems)
    assert problems.noted
    assert errors_of(text, SCHEMAS / f"{kind}.json")


def test_the_manual_has_the_reference_that_the_readers_give() -> None:
    assert (ROOT / "docs/keys.md").read_text() == page(), "run: make schemas"
