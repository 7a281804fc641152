"""spython's parsers read in every rendered document what the plan says."""

from pathlib import Path

import pytest
from spython.main.parse.parsers import DockerParser, SingularityParser
from spython.main.parse.recipe import Recipe

from lumicontainer.core.plan.steps import Plan
from lumicontainer.core.render.render import render

from .test_lumi import IMAGES, planned

ENTRY = "/opt/lumicontainer/bin/lumi-entry"
PARSERS = {"def": SingularityParser, "dockerfile": DockerParser}


def parsed(plan: Plan, form: str, folder: Path) -> Recipe:
    path = folder / form
    path.write_text(render(plan, form, mirror=""))
    (recipe,) = PARSERS[form](str(path)).recipe.values()
    return recipe


def stripped(program: str) -> str:
    """Return a program as spython reads it: no blanks around a line and no empty lines."""
    return "\n".join(line.strip() for line in program.splitlines() if line.strip())


@pytest.mark.parametrize(("recipe", "profile"), IMAGES)
def test_spython_reads_the_same_image_in_both_documents(
    recipe: str, profile: str, tmp_path: Path
) -> None:
    plan = planned(recipe, profile)
    definition, dockerfile = (parsed(plan, form, tmp_path) for form in PARSERS)
    assert definition.fromHeader == dockerfile.fromHeader == plan.bootstrap.image
    programs = [program for step in plan.steps for program in step.documents]
    rest = "\n".join(definition.install)
    for program in map(stripped, programs):
        _, found, rest = rest.partition(program)
        assert found, program
    # Of the base64 that follows, DockerParser drops a word RUN at the start of a line.
    decoders = [line for line in dockerfile.install if line.startswith("base64 -d ")]
    assert len(decoders) == len(programs)
    names = {variable.partition("=")[0] for variable in dockerfile.environ}
    exported = "\n".join(definition.environ)
    assert {"LANG", "PATH"} <= {name for name in names if f"{name}=" in exported} == names
    assert (definition.cmd, dockerfile.entrypoint) == (f'exec {ENTRY} "$@"', [ENTRY])
    title = "org.opencontainers.image.title"
    assert f"{title} {recipe}" in definition.labels
    assert f'{title}="{recipe}"' in [words[0].removesuffix(" \\") for words in dockerfile.labels]
