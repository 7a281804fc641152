"""Documents are rendered to the same bytes as the files beside this one.

``pytest --update-golden`` rewrites them; read the difference before it is committed.
"""

import json
from collections.abc import Callable

import pytest

from lumicontainer.core.catalog import open_catalog
from lumicontainer.core.model import Checks, LayerFile
from lumicontainer.core.plan.plan import ASSEMBLY, make_plan
from lumicontainer.core.plan.steps import BASE, Plan
from lumicontainer.core.render.render import FORMATS, render, render_base
from lumicontainer.core.resolve.decisions import Resolved
from lumicontainer.core.resolve.resolve import resolve

from ..conftest import CHECK
from .conftest import Golden, named, without_programs

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
        "environment: {GREETING_STYLE: plain $(id), LANG: C.UTF-8}\npath: [/opt/greet/bin]\n"
        "prepend: {PYTHONPATH: [/opt/greet/python]}\n"
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
        "values: {network: {version: '1.0'}}\n"
    ),
    "layers/docked/layer.yaml": (
        "summary: a base from a registry\nbootstrap:\n"
        f"  cpu: {{agent: docker, docker_image: 'ubuntu:noble-20260324@sha256:{'a' * 64}'}}\n"
        "packages: {apt: [ca-certificates, curl, git, python3]}\n"
    ),
    "layers/network/layer.yaml": (
        "summary: from source, or the host's\nversion: '1.0'\n"
        "providers:\n"
        "  source:\n"
        "    environment: {NETWORK_HOME: /opt/network}\n"
        "    sources:\n"
        "      - {git: 'https://git.example/net/lib', commit: "
        f"{'b' * 40}, folder: lib, submodules: [lib/inner]}}\n"
        "      - {url: 'https://files.example/drv-1.0.tar.gz', "
        f"sha256: {'c' * 64}, file: drv.tar.gz}}\n"
    ),
    "layers/network/install.sh": 'set -euo pipefail\nls "$sources" "$provider" "$version"\n',
    "layers/tool/layer.yaml": (
        "summary: compiled\nvariants:\n  cpu:\n"
        "    compile: compile-cpu.sh\n"
        f"    sources: [{{git: 'https://git.example/tool', commit: {'d' * 40}, folder: tool}}]\n"
    ),
    "layers/tool/compile-cpu.sh": 'set -euo pipefail\npip wheel "$sources/tool" -w "$wheels"\n',
    "layers/tool/checks/works.sh": f"{CHECK}true\n",
    "layers/tool/install.sh": 'set -euo pipefail\npip install "$wheels"/*.whl\n',
}
RECIPES = {"hello": FILES, "network": NETWORK}
SHORT = {"def": named, "dockerfile": without_programs}
"""``hello`` has every byte; the documents of ``network`` name files and programs."""

Planned = Callable[[str], Plan]


@pytest.fixture
def planned(resolved: Callable[..., Resolved]) -> Planned:
    inside = [LayerFile("lumi-entry", 0o755, b"#!/usr/bin/env python3\nprint('entry')\n")]

    def plan(recipe: str) -> Plan:
        # The checks that every image has are the shipped ones, whatever they are.
        return make_plan(resolved(RECIPES[recipe])._replace(checks=Checks()), inside)

    return plan


@pytest.mark.parametrize("form", sorted(FORMATS))
@pytest.mark.parametrize("recipe", sorted(RECIPES))
def test_a_document_is_rendered_to_the_same_bytes(
    planned: Planned, recipe: str, form: str, is_golden: Golden
) -> None:
    shortened = SHORT[form] if recipe == "network" else str
    is_golden(shortened(render(planned(recipe), form, mirror=MIRROR)), f"{recipe}.{form}")


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


def test_the_definition_of_the_base_changes_only_with_the_count_of_assemblies(
    planned: Planned, is_golden: Golden
) -> None:
    """The base's key does not hold this text: the same key would name two contents."""
    text = render_base(planned("hello").bootstrap, mirror=MIRROR)
    is_golden(text, f"base-{ASSEMBLY}.def")
