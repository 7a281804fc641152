"""The shipped recipes and layers hold what every layer promises."""

import re
from pathlib import Path

import pytest

from lumicontainer.core.catalog import open_catalog
from lumicontainer.core.lock import faults, file_name, text_of
from lumicontainer.core.resolve.resolve import resolve
from lumicontainer.core.yaml.validators import SCRIPT
from lumicontainer.host.recipes import open_lock

from ..conftest import ROOT

CATALOG = open_catalog()
SCRIPTS = sorted(
    path
    for name in ("install*.sh", "compile*.sh", "finish.sh")
    for path in ROOT.glob(f"recipes/layers/*/{name}")
)
LOCKS = sorted(ROOT.glob("recipes/locks/*"))
FILES = sorted(path for path in ROOT.glob("recipes/**/*") if path.is_file())
# What earlier layers set stands in the environment of a script.
CONSTANTS = {
    name
    for path in ROOT.glob("recipes/layers/*/layer.yaml")
    for name in re.findall(r"\b([A-Z][A-Z0-9_]+):", path.read_text())
}


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_script_stops_at_the_first_error_and_uses_only_variables_that_it_is_given(
    path: Path,
) -> None:
    text = path.read_text()
    assert text.startswith("#!/usr/bin/env bash\nset -euo pipefail\n")
    known = {parameter.name for parameter in CATALOG.layer(path.parent.name).parameters}
    known |= {"jobs", "wheels", "sources", "provider", "TMPDIR", "HOME", "PATH", "PWD"} | CONSTANTS
    known |= set(re.findall(r"(?m)(?:^|[;( ])(\w+)\+?=", text))
    known |= set(re.findall(r"\b(?:for|read -r) (\w+)\b", text))
    used = {word for word in re.findall(r"\$\{?(\w+)", text) if not word.isdigit()}
    assert used - known == set()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_file_switches_trust_off(path: Path) -> None:
    text = path.read_text()
    for word in ("--no-check-certificate", "--trusted-host", "--nogpgcheck", "trusted=yes"):
        assert word not in text
    assert not re.search(r"\bcurl\b[^\n]* (-k|--insecure)\b", text)


@pytest.mark.parametrize("name", CATALOG.names("layer"))
def test_every_python_package_is_held_to_one_version(name: str) -> None:
    layer = CATALOG.layer(name)
    for requirement in layer.content.python:
        assert "==" in requirement, requirement
    assert all(source.input().pinned for source in layer.content.sources)


@pytest.mark.parametrize("name", CATALOG.names("recipe"))
def test_every_recipe_resolves_for_a_workstation(name: str) -> None:
    resolved = resolve(CATALOG.materials(name, "workstation"))
    for each in resolved.included():
        if any(file.name == SCRIPT for file in each.files):
            assert each.checks.each, f"the layer {each.name} installs something and proves nothing"


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.name)
def test_a_shipped_lock_holds_all_of_its_image(path: Path) -> None:
    lock = open_lock(path.parent, path.name)
    image = resolve(CATALOG.materials(lock.recipe, lock.platform, lock.profile))
    assert path.name == file_name(image)
    assert faults(lock, image) == []
    assert text_of(lock) == path.read_text()


def test_the_checks_that_a_hint_names_exist() -> None:
    layers = [CATALOG.layer(path.parent.name) for path in ROOT.glob("recipes/layers/*/layer.yaml")]
    checks = [check for each in layers for check in each.checks.each]
    names = {check.name for check in checks}
    word = re.compile(rf"\b(?:{'|'.join(each.name for each in layers)})/\w+")
    named = {(check.name, each) for check in checks for each in word.findall(check.hint)}
    assert ("pytorch/network", "rccl-plugin/interface") in named
    assert {each for each in named if each[1] not in names} == set()
