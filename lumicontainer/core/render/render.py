"""Render whole documents from a plan. The same plan renders the same bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from lumicontainer.core.model import Bootstrap, LayerFile
from lumicontainer.core.plan.cleanup import after_bootstrap
from lumicontainer.core.plan.plan import MAX_SECTION, Plan, Step
from lumicontainer.core.render.definition import (
    ImageDescription,
    definition,
    dockerfile,
    proot_definition,
    runscript,
    variables,
)
from lumicontainer.errors import InputError, Problem

FORMATS = ("def", "dockerfile")

# Linux gives one argument of a program at most 128 KiB (MAX_ARG_STRLEN), and a Dockerfile's RUN
# is one argument of its shell.
MAX_DOCKER_STEP = 120_000


def render(plan: Plan, form: str, *, mirror: str) -> str:
    """Return the document that builds a plan's image with a plain engine.

    ``form`` is one of ``FORMATS``; ``mirror`` is the URL from which debootstrap takes the base.
    Raises ``InputError`` for what a Dockerfile cannot hold.
    """
    subject = _subject(plan)
    if form == "dockerfile":
        _check_docker_steps(plan)
        _check_docker_variables(plan)
        return dockerfile(subject, plan.steps)
    programs = [each for step in plan.steps for each in step.documents]
    if plan.resolved.platform.proot:
        return proot_definition(subject, programs)
    return definition(subject, mirror, programs)


def render_base(bootstrap: Bootstrap, *, mirror: str) -> str:
    """Return the definition of a base alone; it holds nothing of a recipe."""
    base = ImageDescription("base", "", bootstrap.release, "", bootstrap, {}, ())
    return definition(base, mirror, [after_bootstrap(bootstrap)])


def render_notes(plan: Plan, *, document: str, labels: Mapping[str, str]) -> tuple[LayerFile, ...]:
    """Return the files by which the engines know an image's environment, start and labels."""
    environment = f"#!/bin/sh\n# What this image's layers set.\n{variables(_subject(plan))}"
    start = f"#!/bin/sh\n{runscript()}"
    folder = ".singularity.d"
    text = json.dumps(labels, indent=2, sort_keys=True) + "\n"
    return (
        LayerFile(f"{folder}/Singularity", 0o644, document.encode()),
        LayerFile(f"{folder}/labels.json", 0o644, text.encode()),
        LayerFile(f"{folder}/env/90-environment.sh", 0o755, environment.encode()),
        LayerFile(f"{folder}/runscript", 0o755, start.encode()),
    )


def _subject(plan: Plan) -> ImageDescription:
    resolved = plan.resolved
    return ImageDescription(
        name=resolved.recipe.name,
        summary=resolved.recipe.summary,
        platform=resolved.platform.name,
        profile=resolved.profile.name if resolved.profile else "",
        bootstrap=plan.bootstrap,
        environment=plan.environment,
        path=plan.path,
    )


def check_sections(plan: Plan) -> None:
    """Raise ``InputError`` where no engine would read the definition of a plan."""
    large = [step.name for step in plan.steps if _longest(step) > MAX_SECTION]
    why = "an engine reads at most 64 KiB of a definition's section"
    hint = "let install.sh download the large files, or build with lumicontainer build"
    _refuse([f"the step '{name}' is too large for a definition" for name in large], why, hint)


def _longest(step: Step) -> int:
    return max(len(document.encode()) for document in step.documents)


def _check_docker_steps(plan: Plan) -> None:
    large = [step.name for step in plan.steps if _longest(step) * 4 // 3 > MAX_DOCKER_STEP]
    why = "its files do not fit in one argument of a program (128 KiB)"
    hint = "use --format def, or let install.sh download the large files"
    _refuse([f"the step '{name}' is too large for a Dockerfile" for name in large], why, hint)


def _check_docker_variables(plan: Plan) -> None:
    names = [name for name, value in plan.environment.items() if "\n" in value]
    why = "its value has several lines, and ENV of a Dockerfile takes one"
    hint = "use --format def, or write the value in one line"
    _refuse([f"cannot write '{name}' to a Dockerfile" for name in names], why, hint)


def _refuse(found: Sequence[str], why: str, hint: str) -> None:
    if found:
        raise InputError(*(Problem(what, why=why, hint=hint) for what in found))
