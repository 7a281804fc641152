"""Fill the documents that build an image with a plain engine, and those that describe it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from lumicontainer.core.model import Bootstrap
from lumicontainer.core.plan.packages import APT_GET
from lumicontainer.core.plan.plan import HOME, SYSTEM_PATH, Step
from lumicontainer.core.render.jinja import fill
from lumicontainer.core.shipped import step_script

_CONSTANT = re.compile(r"LANG|LANGUAGE|LC_[A-Z]+|LD_[A-Z_]+")
"""The variables for which the value of the image wins over that of the host.

Nearly every login shell exports LANG, often as a locale that the image does not have: each program
would complain. LD_LIBRARY_PATH and LD_PRELOAD name files of the host. Engines do not pass the
host's LD_LIBRARY_PATH on, so a default would leave neither value. Users change a constant by
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


def definition(subject: ImageDescription, mirror: str, programs: Iterable[str]) -> str:
    """Return the definition that runs ``programs`` on the base, in their order.

    ``mirror`` is the URL from which debootstrap downloads it.
    """
    values = {**_settings(subject), "programs": programs}
    return fill("apptainer.def.j2", image=subject, home=HOME, mirror=mirror, **values)


def proot_definition(subject: ImageDescription, programs: Iterable[str]) -> str:
    """Return the definition that users without user namespaces build: the base is pulled."""
    return fill(
        "proot.def.j2",
        image=subject,
        home=HOME,
        programs=programs,
        apt_get=APT_GET,
        etc_begin=step_script("etc-begin.sh").decode(),
        etc_end=step_script("etc-end.sh").decode(),
        **_settings(subject),
    )


def dockerfile(subject: ImageDescription, steps: Iterable[Step]) -> str:
    """Return the Dockerfile that runs the steps on the base."""
    programs = [(step.name, each) for step in steps for each in step.documents]
    values = {"programs": programs, "system_path": SYSTEM_PATH}
    return fill("Dockerfile.j2", image=subject, home=HOME, **values)


def variables(subject: ImageDescription) -> str:
    """Return the shell lines that set the variables of an image."""
    return fill("environment.sh.j2", **_settings(subject))


def runscript() -> str:
    """Return the shell line that starts an image."""
    return fill("runscript.sh.j2", home=HOME)


def _settings(subject: ImageDescription) -> dict[str, object]:
    constants = {n: v for n, v in subject.environment.items() if _CONSTANT.fullmatch(n)}
    defaults = {n: v for n, v in subject.environment.items() if n not in constants}
    return {"constants": constants, "defaults": defaults, "path": subject.path}
