"""Render whole documents from a plan. The same plan renders the same bytes."""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from lumicontainer.constants import HOME, SYSTEM_PATH
from lumicontainer.core.model import Bootstrap, LayerFile
from lumicontainer.core.plan.base import after_bootstrap
from lumicontainer.core.plan.layer_step import APT_GET
from lumicontainer.core.plan.seal import MAX_SECTION
from lumicontainer.core.plan.steps import Plan, Step
from lumicontainer.core.render.jinja import fill
from lumicontainer.core.shipped import step_script
from lumicontainer.errors import InputError, Problem

_CONSTANT = re.compile(r"LANG|LANGUAGE|LC_[A-Z]+|LD_[A-Z_]+|ROCM_(PATH|HOME)")
"""The variables for which the image's value wins over the host's.

Nearly every login shell exports LANG, often as a locale that the image does not have: each program
would complain. LD_LIBRARY_PATH and LD_PRELOAD name files of the host. Engines do not pass the
host's LD_LIBRARY_PATH on, so a default would leave neither value. A module of the host's ROCm
exports ROCM_PATH, often with a version that the image does not have. Users change a constant by
SINGULARITYENV_LANG or --env, which win.
"""


class ImageDescription(NamedTuple):
    """Hold what a document says about its image."""

    name: str
    summary: str
    platform: str
    profile: str
    bootstrap: Bootstrap
    environment: Mapping[str, str]
    path: Sequence[str]
    lists: Collection[str] = ()

    def version(self) -> str:
        """Return what tells images of one recipe apart: the profile, or else the platform."""
        return self.profile or self.platform

    def fill(self, template: str, **values: Any) -> str:
        """Fill a template about the image, in whose ``home`` are its own files."""
        single = {n: v for n, v in self.environment.items() if n not in self.lists}
        constants = {n: v for n, v in single.items() if _CONSTANT.fullmatch(n)}
        defaults = {n: v for n, v in single.items() if n not in constants}
        lists = {n: self.environment[n] for n in sorted(self.lists)}
        values |= {"constants": constants, "defaults": defaults, "lists": lists, "path": self.path}
        return fill(template, image=self, home=HOME, **values)


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
    named = [(step.name, each) for step in plan.steps for each in step.documents]
    if form == "dockerfile":
        _check_docker(plan)
        return subject.fill("Dockerfile.j2", programs=named, system_path=SYSTEM_PATH)
    values: dict[str, Any] = {"programs": [program for _, program in named], "mirror": mirror}
    if not plan.resolved.platform.proot:
        return subject.fill("apptainer.def.j2", **values)
    files = {name: step_script(f"etc-{name}.sh").decode() for name in ("begin", "end")}
    return subject.fill("proot.def.j2", **values, etc=files, apt_get=APT_GET)


def render_base(bootstrap: Bootstrap, *, mirror: str) -> str:
    """Return the definition of a base alone; it holds nothing of a recipe."""
    base = ImageDescription("base", "", bootstrap.release, "", bootstrap, {}, ())
    programs = [after_bootstrap(bootstrap)]
    return base.fill("apptainer.def.j2", programs=programs, mirror=mirror)


def render_notes(plan: Plan, *, document: str, labels: Mapping[str, str]) -> tuple[LayerFile, ...]:
    """Return the files by which the engines know an image's environment, start and labels."""
    subject = _subject(plan)
    variables = subject.fill("environment.sh.j2")
    environment = f"#!/bin/sh\n# What this image's layers set.\n{variables}"
    start = f"#!/bin/sh\n{subject.fill('runscript.sh.j2')}"
    folder = ".singularity.d"
    text = json.dumps(labels, indent=2, sort_keys=True) + "\n"
    return (
        LayerFile(f"{folder}/Singularity", 0o644, document.encode()),
        LayerFile(f"{folder}/labels.json", 0o644, text.encode()),
        LayerFile(f"{folder}/env/90-environment.sh", 0o755, environment.encode()),
        LayerFile(f"{folder}/runscript", 0o755, start.encode()),
        LayerFile(f"{folder}/runscript.help", 0o644, render_help(plan).encode()),
    )


def render_help(plan: Plan) -> str:
    """Return what the engines' ``run-help`` prints."""
    return _subject(plan).fill("help.txt.j2")


def _subject(plan: Plan) -> ImageDescription:
    recipe, platform, profile = plan.resolved.recipe, plan.resolved.platform, plan.resolved.profile
    about = (recipe.name, recipe.summary, platform.name, profile.name if profile else "")
    return ImageDescription(*about, plan.bootstrap, plan.environment, plan.path, plan.lists)


def check_sections(plan: Plan) -> None:
    """Raise ``InputError`` if no engine would read the definition of a plan."""
    large = [step.name for step in plan.steps if _longest(step) > MAX_SECTION]
    why = "an engine reads at most 64 KiB of a definition's section"
    hint = "let install.sh download the large files, or build with lumicontainer build"
    _refuse("the step '{}' is too large for a definition", large, why, hint)


def _check_docker(plan: Plan) -> None:
    if file := plan.bootstrap.file:
        why = f"the base is an image file, {file}, and Docker begins with an image of a registry"
        hint = "use --format def, or lumicontainer build"
        raise InputError(Problem("cannot write a Dockerfile", why=why, hint=hint))
    if other := plan.bootstrap.image_of:
        base, release = plan.bootstrap.image, plan.bootstrap.release
        why = f"the base is {release}, and {base}, with which Docker begins, is {other}"
        hint = f"add {release} to the base's 'versions', with the docker_image that it is"
        raise InputError(Problem("cannot write a Dockerfile", why=why, hint=hint))
    large = [step.name for step in plan.steps if _longest(step) * 4 // 3 > MAX_DOCKER_STEP]
    why = "its files do not fit in one argument of a program (128 KiB)"
    hint = "use --format def, or let install.sh download the large files"
    _refuse("the step '{}' is too large for a Dockerfile", large, why, hint)
    check_docker_variables(plan)


def check_docker_variables(plan: Plan) -> None:
    """Raise ``InputError`` for variables that an image of Docker cannot have."""
    names = [name for name, value in plan.environment.items() if "\n" in value]
    why = "its value has several lines, and ENV of a Dockerfile takes one"
    hint = "build an image file (--format def), or write the value in one line"
    _refuse("cannot write '{}' to a Dockerfile", names, why, hint)


def _longest(step: Step) -> int:
    return max(len(document.encode()) for document in step.documents)


def _refuse(what: str, names: Sequence[str], why: str, hint: str) -> None:
    if names:
        raise InputError(*(Problem(what.format(name), why=why, hint=hint) for name in names))
