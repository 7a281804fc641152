"""Leave an image in a Docker daemon, in place of an image file (``--output docker:NAME``)."""

import re
from pathlib import Path

from lumicontainer.building import pipeline
from lumicontainer.cache import usage
from lumicontainer.constants import HOME, search_path
from lumicontainer.core.plan.steps import Plan
from lumicontainer.core.render.render import check_docker_variables
from lumicontainer.errors import InputError, Problem
from lumicontainer.host.docker import container, daemon, image
from lumicontainer.image.inspect import CHECKED_LABEL, KEY_LABEL
from lumicontainer.sandbox.builder import Builder, Stack
from lumicontainer.sandbox.run import run_command
from lumicontainer.sandbox.step_run import StepRun
from lumicontainer.system.files.temporary import temporary_root
from lumicontainer.system.waiting import completed

PREFIX = "docker:"
_NAME = re.compile(r"[a-z0-9][a-z0-9._/-]*(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?")


def name_of(output: Path | str | None) -> str:
    """Return the name of an image in the daemon; empty if ``output`` names a file.

    Raises ``InputError`` for an invalid name.
    """
    text = str(output or "")
    if not text.startswith(PREFIX):
        return ""
    name = text.removeprefix(PREFIX)
    if not _NAME.fullmatch(name):
        hint = "write it like --output docker:pytorch:2.13"
        raise InputError(Problem(f"invalid name of an image '{name}'", "--output", hint=hint))
    return name


def is_current(plan: Plan, name: str) -> bool:
    """Return whether the daemon's image of this name was built from the same inputs."""
    labels = daemon.labels_of(daemon.connect(), name)
    return labels.get(KEY_LABEL) == plan.steps[-1].key and labels.get(CHECKED_LABEL) == "yes"


def build(builder: Builder, name: str, *, verify: bool) -> None:
    """Build the image file, check it, leave its content in the daemon, and prune the cache."""
    usage.wanted_limit()  # An invalid size ends the command before it builds.
    stack = completed(_build(builder, name, verify=verify), builder.progress)
    usage.settle(builder.cache, stack, builder.progress.say)


async def _build(builder: Builder, name: str, *, verify: bool) -> Stack:
    file = builder.place.root / "image.sif"
    plan = builder.plan
    check_docker_variables(plan)
    stack = await pipeline.build(builder, file, verify=verify, more=1)
    with builder.progress.step("docker") as task:
        spec = image.ImageSpec(
            str(file),
            str(temporary_root()),
            name,
            labels={CHECKED_LABEL: "yes" if verify else "no", **pipeline.labels_of(plan)},
            variables={**plan.environment, "PATH": search_path(plan.path)},
            entry_point=[f"{HOME}/bin/lumi-entry"],
        )
        run = StepRun(builder, "docker", stack, task)
        await run_command(run, container.invocation(image.__name__, spec))
    file.unlink()
    return stack
