"""Documents are rendered to the same bytes as the files beside this one.

``pytest --update-golden`` rewrites them; read the difference before it is committed.
"""

import json
import re
import subprocess
import sys
from collections.abc import Callable

import pytest

from lumicontainer.core.catalog import open_catalog
from lumicontainer.core.model import Checks, LayerFile
from lumicontainer.core.plan.plan import ASSEMBLY, make_plan
from lumicontainer.core.plan.seal import MAX_SECTION
from lumicontainer.core.plan.steps import BASE, Plan
from lumicontainer.core.render.render import FORMATS, render, render_base
from lumicontainer.core.resolve.decisions import Resolved
from lumicontainer.core.resolve.resolve import resolve

from ..conftest import CHECK
from .conftest import Golden, named, programs, without_programs

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
        "sources: [{sdist: greet, sha256: '" + "0" * 64 + "'}]\n"
        "environment: {GREETING_STYLE: plain $HOME, LANG: C.UTF-8}\npath: [/opt/greet/bin]\n"
    ),
    "layers/greet/change.patch": "--- a\n+++ b\n%not text for a definition\n",
}

NETWORK = {
    "hello.yaml": (
        "summary: a network, fetched\nbase: tiny\nprofiles: [new, old]\nlayers:\n"
        "  - network\n  - tool\n"
    ),
    "profiles/new.yaml": "summary: what is new\naccelerator: rocm\n",
    "profiles/old.yaml": (
        "summary: what is known to work\naccelerator: cpu\nbase: docked\n"
        "values: {network: {version: '1.0'}, elsewhere: {any: thing}}\n"
    ),
    "layers/elsewhere/layer.yaml": "summary: in no recipe here\n",
    "layers/docked/layer.yaml": (
        "summary: a base from a registry\nbootstrap:\n"
        f"  cpu: {{agent: docker, docker_image: 'ubuntu:noble-20260324@sha256:{'a' * 64}'}}\n"
        "packages: {apt: [ca-certificates, curl, git, python3]}\n"
    ),
    "layers/network/layer.yaml": (
        "summary: from source, or the host's\nversion: '2.0'\n"
        "providers:\n"
        "  source:\n"
        "    environment: {NETWORK_HOME: /opt/network}\n"
        "    versions:\n"
        "      '1.0':\n"
        "        sources:\n"
        "          - {git: 'https://git.example/net/lib', commit: "
        f"{'b' * 40}, folder: lib, submodules: [lib/inner]}}\n"
        "          - {url: 'https://files.example/drv-1.0.tar.gz', "
        f"sha256: {'c' * 64}, file: drv.tar.gz}}\n"
        "      '2.0': {sources: [{url: 'https://files.example/drv-2.tar.gz', file: drv.tar.gz}]}\n"
        "  host:\n"
        "    binds: [{path: /opt/host/network, reason: it is there, source: its makers}]\n"
        "    host_libraries: [{path: /usr/lib64/libnet.so.1, reason: it fits the driver}]\n"
    ),
    "layers/network/install.sh": 'set -euo pipefail\nls "$sources" "$provider" "$version"\n',
    "layers/tool/layer.yaml": (
        "summary: compiled\nvariants:\n  cpu:\n"
        "    compile: compile-cpu.sh\n"
        f"    sources: [{{git: 'https://git.example/tool', commit: {'d' * 40}, folder: tool}}]\n"
        "  rocm: {}\n"
    ),
    "layers/tool/compile-cpu.sh": 'set -euo pipefail\npip wheel "$sources/tool" -w "$wheels"\n',
    "layers/tool/compile.sh": "exit 1\n",
    "layers/tool/rocm/fix.patch": "--- a\n",
    "layers/tool/checks/works.sh": f"{CHECK}true\n",
    "layers/tool/install.sh": 'set -euo pipefail\npip install "$wheels"/*.whl\n',
}
RECIPES = {"hello": FILES, "network": NETWORK}
SHORT = {"def": named, "dockerfile": without_programs}
"""``hello`` has every byte; the documents of ``network`` name files and programs."""


@pytest.fixture
def plan_of(resolved: Callable[..., Resolved]) -> Callable[[str], Plan]:
    inside = [LayerFile("lumi-entry", 0o755, b"#!/usr/bin/env python3\nprint('entry')\n")]

    def plan(recipe: str) -> Plan:
        # The checks that every image has are the shipped ones, whatever they are.
        return make_plan(resolved(RECIPES[recipe])._replace(checks=Checks()), inside)

    return plan


@pytest.fixture
def plan(plan_of: Callable[[str], Plan]) -> Plan:
    return plan_of("hello")


@pytest.mark.parametrize("form", sorted(FORMATS))
@pytest.mark.parametrize("recipe", sorted(RECIPES))
def test_a_document_is_rendered_to_the_same_bytes(
    plan_of: Callable[[str], Plan], recipe: str, form: str, is_golden: Golden
) -> None:
    shortened = SHORT[form] if recipe == "network" else str
    is_golden(shortened(render(plan_of(recipe), form, mirror=MIRROR)), f"{recipe}.{form}")


def test_a_dockerfile_runs_what_the_definition_runs(plan_of: Callable[[str], Plan]) -> None:
    for recipe in RECIPES:
        found = programs(render(plan_of(recipe), "dockerfile", mirror=MIRROR))
        assert found == [each for step in plan_of(recipe).steps for each in step.documents]


def test_the_steps_of_the_shipped_image_for_a_workstation_have_the_keys_that_they_had(
    is_golden: Golden,
) -> None:
    """A builder that makes other keys of the same layers makes everybody rebuild all of them."""
    materials = open_catalog().materials("pytorch-deepspeed", "workstation")
    plan = make_plan(resolve(materials), ())
    keys = {BASE: plan.base_key}
    for step in plan.steps[:-1]:
        keys[step.name] = step.key
        if step.compiled:
            keys[f"{step.name}: compile"] = step.compiled.key
    is_golden(json.dumps(keys, indent=2) + "\n", "workstation-keys.json")


def test_only_what_the_definition_means_as_a_section_begins_with_a_percent_sign(
    plan: Plan,
) -> None:
    text = render(plan, "def", mirror=MIRROR)
    sections = re.findall(r"(?m)^\s*(%\S+)", text)
    posts = ["%post" for step in plan.steps for _ in step.documents]
    assert sections == ["%labels", "%environment", *posts, "%runscript"]
    assert not re.search(r"\{\{\s*\w+\s*\}\}", text)


def test_the_definition_of_the_base_holds_nothing_of_the_recipe(plan: Plan) -> None:
    text = render_base(plan.bootstrap, mirror=MIRROR)
    assert "# layer:" not in text
    assert "GREETING_STYLE" not in text
    assert plan.resolved.recipe.name not in text


def test_the_definition_of_the_base_changes_only_with_the_count_of_assemblies(
    plan: Plan, is_golden: Golden
) -> None:
    """The base's key does not hold this text: the same key would name two contents."""
    text = render_base(plan.bootstrap, mirror=MIRROR)
    is_golden(text, f"base-{ASSEMBLY}.def")


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
