"""Render whole documents from a plan. The same plan renders the same bytes."""

from __future__ import annotations

import base64
import json
import pprint
import re
import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from lumicontainer import proot
from lumicontainer.errors import InputError, Problem
from lumicontainer.model import Bootstrap, LayerFile
from lumicontainer.plan import HOME, MAX_SECTION, SYSTEM_PATH, Plan, Step
from lumicontainer.tidy import after_bootstrap

if TYPE_CHECKING:
    from jinja2 import Environment

FORMATS = {"def": "definition.def.j2", "dockerfile": "Dockerfile.j2"}

# Linux gives one argument of a program at most 128 KiB (MAX_ARG_STRLEN), and a Dockerfile's RUN
# is one argument of its shell.
MAX_DOCKER_STEP = 120_000


_CONSTANT = re.compile(r"LANG|LANGUAGE|LC_[A-Z]+|LD_[A-Z_]+")
"""Variables that name what only this image has, so that a host's value of them is wrong in it.

Nearly every login shell exports LANG, and often as a locale that the image lacks: each program
would complain. LD_LIBRARY_PATH and LD_PRELOAD name files of the host; besides, no engine hands the
host's LD_LIBRARY_PATH on, so where the image's gave way to it, neither would be there. Who means it
says SINGULARITYENV_LANG or --env, which win over constants too.
"""


def _docker_quote(value: str) -> str:
    for character in '\\"$':
        value = value.replace(character, "\\" + character)
    return f'"{value}"'


def _base64_lines(text: str) -> str:
    """Return ``text`` as base64 on continued lines: Docker takes no line above 65,535 bytes."""
    lines = base64.encodebytes(text.encode()).decode().splitlines()
    return "\\\n".join(lines)


def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415 - 30 ms

    environment = Environment(
        loader=PackageLoader("lumicontainer"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - no document here is HTML; each value has a quoting filter
    )
    environment.filters["quote"] = shlex.quote
    environment.filters["docker"] = _docker_quote
    environment.filters["base64"] = _base64_lines
    environment.filters["words"] = shlex.join
    environment.filters["literal"] = partial(pprint.pformat, width=96, sort_dicts=False)
    return environment


def document(template: str, **values: Any) -> str:
    """Return a document that holds nothing of a plan: a batch script, a test class."""
    return _environment().get_template(template).render(**values)


def render(plan: Plan, form: str, *, mirror: str) -> str:
    """Return the document that builds a plan's image with a plain engine.

    ``form`` is a key of ``FORMATS``; ``mirror`` is the URL from which debootstrap takes the base.
    Raises ``InputError`` where a step is too large for a Dockerfile.
    """
    if form == "dockerfile":
        _check_docker_steps(plan)
        return _render(FORMATS[form], plan)
    bootstrap = plan.bootstrap
    programs: Sequence[str] = [each for step in plan.steps for each in step.documents]
    if plan.resolved.platform.proot:
        programs = proot.around(bootstrap, programs)
        bootstrap = proot.pulled(bootstrap)
    return _render(FORMATS[form], plan, mirror=mirror, bootstrap=bootstrap, programs=programs)


def render_base(bootstrap: Bootstrap, *, mirror: str) -> str:
    """Return the definition of a base alone; it holds nothing of a recipe."""
    return _render_with(
        FORMATS["def"],
        name="base",
        summary="",
        platform=bootstrap.release,
        profile="",
        bootstrap=bootstrap,
        environment={},
        path=(),
        mirror=mirror,
        programs=(after_bootstrap(bootstrap),),
    )


def render_notes(
    plan: Plan, *, definition: str, labels: Mapping[str, str]
) -> tuple[LayerFile, ...]:
    """Return the files by which the engines know an image's environment, start and labels."""
    environment = _render("environment.sh.j2", plan)
    runscript = _render("runscript.j2", plan)
    folder = ".singularity.d"
    text = json.dumps(labels, indent=2, sort_keys=True) + "\n"
    return (
        LayerFile(f"{folder}/Singularity", 0o644, definition.encode()),
        LayerFile(f"{folder}/labels.json", 0o644, text.encode()),
        LayerFile(f"{folder}/env/90-environment.sh", 0o755, environment.encode()),
        LayerFile(f"{folder}/runscript", 0o755, runscript.encode()),
    )


def _render(template: str, plan: Plan, **values: Any) -> str:
    recipe = plan.resolved.recipe
    told: dict[str, Any] = {
        "name": recipe.name,
        "summary": recipe.summary,
        "platform": plan.resolved.platform.name,
        "profile": plan.resolved.profile.name if plan.resolved.profile else "",
        "bootstrap": plan.bootstrap,
        "environment": plan.environment,
        "path": plan.path,
        "steps": plan.steps,
    }
    return _render_with(template, **{**told, **values})


def _render_with(template: str, **values: Any) -> str:
    found = _environment().get_template(template)
    environment: Mapping[str, str] = values["environment"]
    constants = {name: text for name, text in environment.items() if _CONSTANT.fullmatch(name)}
    defaults = {name: text for name, text in environment.items() if name not in constants}
    return found.render(
        home=HOME, system_path=SYSTEM_PATH, constants=constants, defaults=defaults, **values
    )


def check_sections(plan: Plan) -> None:
    """Raise ``InputError`` where no engine would read the definition of a plan."""
    large = [step.name for step in plan.steps if _longest(step) > MAX_SECTION]
    if large:
        why = "an engine reads at most 64 KiB of a definition's section"
        mend = "let install.sh download the large files, or build with lumicontainer build"
        raise InputError(
            *(
                Problem(f"the step '{n}' is too large for a definition", why=why, mend=mend)
                for n in large
            )
        )


def _longest(step: Step) -> int:
    return max(len(document.encode()) for document in step.documents)


def _check_docker_steps(plan: Plan) -> None:
    large = [step for step in plan.steps if _longest(step) * 4 // 3 > MAX_DOCKER_STEP]
    if large:
        raise InputError(
            *(
                Problem(
                    f"the step '{step.name}' is too large for a Dockerfile",
                    why="its files do not fit in one argument of a program (128 KiB)",
                    mend="use --format def, or let install.sh download the large files",
                )
                for step in large
            )
        )
