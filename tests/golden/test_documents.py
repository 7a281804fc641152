"""Documents are rendered to the same bytes as the files beside this one.

``pytest --update-golden`` writes them anew; read the difference before it is committed.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lumicontainer.model import LayerFile
from lumicontainer.plan import MAX_SECTION, Plan, make_plan
from lumicontainer.render import FORMATS, render, render_base
from lumicontainer.resolve import Resolved

HERE = Path(__file__).parent
MIRROR = "http://mirror.site/debian"
FILES = {
    "hello.yaml": (
        "summary: a small image\nbase: tiny\nlayers:\n"
        '  - greet: {greeting: "it\'s $(id) {{ x }}", loud: false}\n  - absent\n'
    ),
    "layers/absent/layer.yaml": "summary: x\nvariants: {cpu: {omit: there is no GPU}}\n",
    "layers/greet/layer.yaml": (
        "summary: says hello\nversion: '1.2'\nparameters:\n"
        "  greeting: {type: string, default: hello}\n"
        "  loud: {type: boolean, default: true}\n"
        "packages: {apt: [sl], python: [six==1.17.0]}\n"
        "sources: [{python: greet, sha256: '" + "0" * 64 + "'}]\n"
        "environment: {GREETING_STYLE: plain $HOME, LANG: C.UTF-8}\npath: [/opt/greet/bin]\n"
    ),
    "layers/greet/change.patch": "--- a\n+++ b\n%not text for a definition\n",
}


@pytest.fixture
def plan(resolved: Callable[..., Resolved]) -> Plan:
    inside = [LayerFile("lumi-entry", 0o755, b"#!/usr/bin/env python3\nprint('entry')\n")]
    return make_plan(resolved(FILES), inside)


@pytest.mark.parametrize("form", sorted(FORMATS))
def test_a_document_is_rendered_to_the_same_bytes(
    plan: Plan, form: str, request: pytest.FixtureRequest
) -> None:
    text = render(plan, form, mirror=MIRROR)
    golden = HERE / f"hello.{form}"
    if request.config.getoption("--update-golden"):
        golden.write_text(text)
    assert text == golden.read_text()


def test_only_what_the_definition_means_as_a_section_begins_with_a_percent_sign(
    plan: Plan,
) -> None:
    text = render(plan, "def", mirror=MIRROR)
    sections = re.findall(r"(?m)^\s*(%\S+)", text)
    posts = ["%post" for step in plan.steps for _ in step.documents]
    assert sections == ["%labels", "%environment", *posts, "%runscript"]
    assert not re.search(r"\{\{\s*\w+\s*\}\}", text)


def test_the_definition_of_the_base_holds_nothing_of_the_recipe(plan: Plan) -> None:
    text = render_base(plan, mirror=MIRROR)
    assert "# layer:" not in text
    assert "GREETING_STYLE" not in text
    assert plan.resolved.recipe.name not in text


def test_no_document_switches_trust_off(plan: Plan) -> None:
    forbidden = ("--no-check-certificate", " -k ", "--trusted-host", "--nogpgcheck", "trusted=yes")
    for form in FORMATS:
        assert not [word for word in forbidden if word in render(plan, form, mirror=MIRROR)]


def test_no_section_of_a_shipped_recipe_is_longer_than_an_engine_reads() -> None:
    """Apptainer: "bufio.Scanner: token too long" above 64 KiB."""
    done = subprocess.run(
        [sys.executable, "-m", "lumicontainer", "render", "pytorch-deepspeed"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert max(map(len, re.split(r"(?m)^%", done.stdout))) < MAX_SECTION
