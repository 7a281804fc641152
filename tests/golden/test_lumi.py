"""The documents of every shipped recipe for LUMI-G, in each of its profiles, are the golden ones.

A golden file holds what belongs to the recipe: all but the last step, which puts lumi-entry and the
records into every image, and would change all files at once. A file of this repository is replaced
by its name, because the document holds its sha256 too. The first profile of a recipe has whole
documents, or their difference from those of the recipe that it resembles; the file of each other
profile is the difference from the profile before it.
"""

import difflib
from pathlib import Path
from typing import Any

import pytest
from spython.main.parse.parsers import DockerParser, SingularityParser

from lumicontainer.core.catalog import open_catalog
from lumicontainer.core.plan.plan import make_plan
from lumicontainer.core.plan.steps import Plan
from lumicontainer.core.render.render import check_sections, render
from lumicontainer.core.resolve.resolve import resolve

from .conftest import HERE, Golden, named, programs, without_programs

CATALOG = open_catalog()
IMAGES = [
    (recipe, profile)
    for recipe in CATALOG.names("recipe")
    for profile in CATALOG.recipe(recipe).profiles
]
FOLDER = "lumi-g"
ENTRY = "/opt/lumicontainer/bin/lumi-entry"
RESEMBLES = {"jax": "pytorch", "megatron-deepspeed": "pytorch-deepspeed", "rocm": "pytorch"}
"""Recipes with most of the layers of another one."""


def planned(recipe: str, profile: str) -> Plan:
    """Plan an image without its last step."""
    plan = make_plan(resolve(CATALOG.materials(recipe, "lumi-g", profile)), ())
    return plan._replace(steps=plan.steps[:-1])


def differences(first: dict[str, str], other: dict[str, str]) -> str:
    """Return unified diffs without line numbers, which any change above would move."""
    lines = []
    for form, text in first.items():
        pair = text.splitlines(), other[form].splitlines()
        lines += [*difflib.unified_diff(*pair, n=1, lineterm="")][2:]
    return "".join("@@\n" if line.startswith("@@") else f"{line}\n" for line in lines)


def documents(recipe: str, profile: str) -> dict[str, str]:
    plan = planned(recipe, profile)
    check_sections(plan)
    texts = {form: render(plan, form, mirror="") for form in ("def", "dockerfile")}
    assert programs(texts["dockerfile"]) == [each for step in plan.steps for each in step.documents]
    assert all(program in texts["def"] for program in programs(texts["dockerfile"]))
    return {"def": named(texts["def"]), "dockerfile": without_programs(texts["dockerfile"])}


@pytest.mark.slow
@pytest.mark.parametrize("recipe", dict.fromkeys(recipe for recipe, _ in IMAGES))
def test_the_documents_are_the_golden_ones_and_run_the_same(recipe: str, is_golden: Golden) -> None:
    profile, *others = CATALOG.recipe(recipe).profiles
    first = documents(recipe, profile)
    if like := RESEMBLES.get(recipe):
        is_golden(differences(documents(like, profile), first), f"{FOLDER}/{recipe}.{profile}.diff")
    else:
        for form, text in first.items():
            is_golden(text, f"{FOLDER}/{recipe}.{profile}.{form}")
    for other in others:
        then = documents(recipe, other)
        is_golden(differences(first, then), f"{FOLDER}/{recipe}.{other}.diff")
        first = then


def test_there_is_no_golden_file_of_an_image_that_is_not_shipped() -> None:
    images = {f"{recipe}.{profile}" for recipe, profile in IMAGES}
    assert {path.stem for path in (HERE / FOLDER).iterdir()} == images


def read_by_spython(parser: type, document: str, path: Path) -> Any:
    path.write_text(document)
    (recipe,) = parser(str(path)).recipe.values()
    return recipe


@pytest.mark.slow
@pytest.mark.parametrize(("recipe", "profile"), IMAGES)
def test_spython_reads_the_same_image_in_both_documents(
    recipe: str, profile: str, tmp_path: Path
) -> None:
    plan = planned(recipe, profile)
    definition, dockerfile = (
        read_by_spython(parser, render(plan, form, mirror=""), tmp_path / form)
        for form, parser in (("def", SingularityParser), ("dockerfile", DockerParser))
    )
    assert definition.fromHeader == dockerfile.fromHeader == plan.bootstrap.image
    steps = [program for step in plan.steps for program in step.documents]
    rest = "\n".join(definition.install)
    for program in steps:
        # spython leaves out blanks around a line and empty lines.
        lines = "\n".join(filter(None, map(str.strip, program.splitlines())))
        _, part, rest = rest.partition(lines)
        assert part, program
    # Of the base64 that follows, DockerParser drops a word RUN at the start of a line.
    decoders = [line for line in dockerfile.install if line.startswith("base64 -d ")]
    assert len(decoders) == len(steps)
    names = {variable.partition("=")[0] for variable in dockerfile.environ}
    exported = "\n".join(definition.environ)
    assert {"LANG", "PATH"} <= {name for name in names if f"{name}=" in exported} == names
    assert (definition.cmd, dockerfile.entrypoint) == (f'exec {ENTRY} "$@"', [ENTRY])
    title = "org.opencontainers.image.title"
    assert f"{title} {recipe}" in definition.labels
    assert f'{title}="{recipe}"' in [words[0].removesuffix(" \\") for words in dockerfile.labels]
