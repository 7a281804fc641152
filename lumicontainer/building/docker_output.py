"""Leave an image in a Docker daemon, in place of an image file (``--output docker:NAME``)."""

import re
from dataclasses import dataclass
from pathlib import Path

from lumicontainer.building import pipeline
from lumicontainer.building.file_output import FileOutput
from lumicontainer.building.output import OutputState
from lumicontainer.cache import usage
from lumicontainer.core.plan.steps import Plan
from lumicontainer.core.render.render import check_docker_variables
from lumicontainer.errors import InputError, Problem
from lumicontainer.host.docker import container, daemon, image
from lumicontainer.image import build_date
from lumicontainer.image.inspect import CHECKED_LABEL, KEY_LABEL
from lumicontainer.registry.oci.config import recorded_config
from lumicontainer.sandbox.builder import Builder, Stack
from lumicontainer.sandbox.run import run_command
from lumicontainer.sandbox.step_run import StepRun
from lumicontainer.system.waiting import complete

PREFIX = "docker:"
_NAME = re.compile(r"[a-z0-9][a-z0-9._/-]*(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?")


@dataclass(frozen=True)
class DockerOutput:
    """Name an image in a Docker daemon; raise ``InputError`` if the name is invalid."""

    name: str

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            what, hint = f"invalid name of an image '{self.name}'", f"--output {PREFIX}pytorch:2.13"
            raise InputError(Problem(what, "--output", hint=f"write it like {hint}"))

    @property
    def word(self) -> str:
        """Return what ``--output`` takes."""
        return f"{PREFIX}{self.name}"

    @property
    def path(self) -> Path:
        """Return the name that a file of this image would have."""
        return Path(self.word).absolute()

    def runtime(self, _: str | None) -> str:
        """Return the runtime of the daemon, which gets the image."""
        return "docker"

    def look(self, plan: Plan, date: str, *, verify: bool, fresh: bool) -> OutputState:  # noqa: ARG002 - of Output
        """Return whether the daemon's image of this name was built from the same inputs."""
        if fresh:
            return OutputState(current=False)
        labels = daemon.labels_of(daemon.connect(), self.name)
        same = labels.get(KEY_LABEL) == plan.steps[-1].key
        same = same and labels.get(build_date.LABEL, "") == date
        return OutputState(same and labels.get(CHECKED_LABEL) == "yes")

    def require_replaceable(self) -> None:
        """Do nothing: the daemon keeps the old image without its name."""

    def build(self, builder: Builder, *, verify: bool) -> None:
        """Build the image file, check it, leave its content in the daemon, and prune the cache."""
        usage.wanted_limit()  # An invalid size ends the command before it builds.
        stack = complete(_build(builder, self.name, verify=verify), builder.progress)
        usage.settle(builder.cache, stack, builder.progress.say)


def output_of(word: str | Path | None) -> FileOutput | DockerOutput | None:
    """Return the output that a word names, as ``--output`` takes it; None for the default."""
    if str(word or "").startswith(PREFIX):
        return DockerOutput(str(word).removeprefix(PREFIX))
    return FileOutput(Path(word)) if word else None


async def _build(builder: Builder, name: str, *, verify: bool) -> Stack:
    file = builder.place.root / "image.sif"
    plan = builder.plan
    check_docker_variables(plan)
    stack = await pipeline.build(builder, file, verify=verify, more=1)
    with builder.progress.step("docker") as task:
        config = recorded_config(file)
        spec = image.ImageSpec(str(file), str(builder.place.root), name, **config._asdict())
        run = StepRun(builder, "docker", stack, task)
        await run_command(run, container.invocation(image.__name__, spec))
    file.unlink()
    return stack
