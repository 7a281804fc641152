"""The documents of every shipped recipe for LUMI-G, in each of its profiles, are the golden ones.

A golden file holds what belongs to the recipe: all but the last step, which puts lumi-entry and the
records into every image, and would change all files at once. In the place of a file of this
repository stands its name, since the document holds its sha256 too; in the place of a Dockerfile's
program, which is base64, stands that it is the definition's.
"""

from __future__ import annotations

import base64
import re
from pathlib import Path

import pytest

from lumicontainer.core.catalog import open_catalog
from lumicontainer.core.plan.plan import Plan, make_plan
from lumicontainer.core.render.render import check_sections, render
from lumicontainer.core.resolve.resolve import resolve

from ..conftest import ROOT
from .conftest import HERE, Golden

CATALOG = open_catalog()
IMAGES = [
    (recipe, profile)
    for recipe in CATALOG.recipe_names()
    for profile in CATALOG.recipe(recipe).profiles
]
FILES = [
    path
    for folder in ("recipes", "lumicontainer/step")
    for path in (ROOT / folder).rglob("*")
    if path.is_file() and path.suffix != ".pyc"
]
FOLDER = "lumi-g"

every_image = pytest.mark.parametrize(("recipe", "profile"), IMAGES)


def planned(recipe: str, profile: str) -> Plan:
    """Plan an image without its last step."""
    platform = CATALOG.platform("lumi-g")
    found = resolve(CATALOG.recipe(recipe), CATALOG, platform=platform, profile=profile)
    plan = make_plan(found, ())
    return plan._replace(steps=plan.steps[:-1])


def texts() -> dict[str, Path]:
    """Return the files of more than one line by their text, the longest first."""
    found = {path.read_text(): path.relative_to(ROOT) for path in FILES}
    return {text: found[text] for text in sorted(found, key=len, reverse=True) if "\n" in text[:-1]}


def named(document: str) -> str:
    for text, path in texts().items():
        document = document.replace(f"\n{text}", f"\n[{path}]\n")
    return document


_PROGRAM = re.compile(r"(?<=<<<\\\n)(.*?)(?= \\\n    && bash)", re.DOTALL)


def programs(dockerfile: str) -> list[str]:
    """Return what the steps of a Dockerfile run."""
    coded = (text.replace("\\\n", "") for text in _PROGRAM.findall(dockerfile))
    return [base64.b64decode(text).decode() for text in coded]


@every_image
def test_the_definition_is_the_golden_one(recipe: str, profile: str, is_golden: Golden) -> None:
    plan = planned(recipe, profile)
    check_sections(plan)
    is_golden(named(render(plan, "def", mirror="")), f"{FOLDER}/{recipe}.{profile}.def")


@every_image
def test_the_dockerfile_is_the_golden_one_and_runs_what_the_definition_runs(
    recipe: str, profile: str, is_golden: Golden
) -> None:
    plan = planned(recipe, profile)
    dockerfile = render(plan, "dockerfile", mirror="")
    definition = render(plan, "def", mirror="")
    assert programs(dockerfile) == [each for step in plan.steps for each in step.documents]
    assert all(program in definition for program in programs(dockerfile))
    text = _PROGRAM.sub("[the definition's]", dockerfile)
    is_golden(text, f"{FOLDER}/{recipe}.{profile}.dockerfile")


def test_there_is_no_golden_file_of_an_image_that_is_not_shipped() -> None:
    wanted = {f"{recipe}.{profile}" for recipe, profile in IMAGES}
    assert {path.stem for path in (HERE / FOLDER).iterdir()} == wanted
