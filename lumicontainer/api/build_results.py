"""Hold what a build is to do, and what came of it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from lumicontainer.api.image import Image
from lumicontainer.api.sending import SentBuild
from lumicontainer.api.values import BuildOptions
from lumicontainer.building.checks.reproducibility import ChangedFile
from lumicontainer.building.output import BuildOutput, OutputState
from lumicontainer.core.plan.steps import Plan
from lumicontainer.core.resolve.inputs import base_label, unpinned
from lumicontainer.errors import Problem
from lumicontainer.jobs.builds import CompileJobs
from lumicontainer.registry.send_objects import SentObjects
from lumicontainer.system import units
from lumicontainer.system.terminal.text import Document, TextPart, TextTable


@dataclass(frozen=True)
class BuildOrder:
    """Hold the steps of a build, its output, and the output's state."""

    plan: Plan
    options: BuildOptions
    output: BuildOutput
    state: OutputState
    warnings: tuple[Problem, ...] = ()
    compile_jobs: CompileJobs | None = None
    job: Path | None = None
    """The folder of the Slurm job that runs this process, if one does."""

    @property
    def current(self) -> bool:
        """Return whether the output is there already."""
        return self.state.current


class PlannedStep(NamedTuple):
    """Hold the name and the key of a step, its inputs without a pin, and where its layer is."""

    name: str
    key: str
    notes: str
    origin: str


class PlannedBuild(NamedTuple):
    """Hold what a build would do."""

    order: BuildOrder
    taken: Mapping[str, str]
    """By key: who published the layers that it would take from the shared cache."""
    submitted: Sequence[str]
    """The options of sbatch if it would submit a job."""

    def as_data(self) -> dict[str, Any]:
        """Return it as ``lumicontainer build --dry-run --json`` prints it."""
        order = self.order
        steps = [{"name": step.name, "key": step.key} for step in order.plan.steps]
        head = {"image": order.output.word, "up_to_date": order.current}
        return {**head, "base_key": order.plan.base_key, "steps": steps, "taken": self.taken}

    def as_text(self) -> Iterator[TextPart]:
        """Yield it as ``lumicontainer build --dry-run`` prints it."""
        state = "up to date, would not build" if self.order.current else "would build"
        yield f"{state}: {self.order.output.word}"
        yield TextTable(
            [(name, key[:12], notes, origin) for name, key, notes, origin in self.rows()]
        )

    def rows(self) -> Iterator[PlannedStep]:
        """Yield the base and each step, with its notes."""
        plan = self.order.plan
        layers = plan.resolved.included()
        open_inputs = {each.name: unpinned(plan.resolved, each) for each in layers}
        base = base_label(plan.bootstrap)
        is_open = base in open_inputs[layers[0].name]
        notes = f"{base}  not pinned" if is_open else base
        yield PlannedStep("base", plan.base_key, notes, self._origin(plan.base_key))
        for step in plan.steps:
            number = len(open_inputs.get(step.name, ()))
            notes = f"{units.count(number, 'input')} not pinned" if number else ""
            yield PlannedStep(step.name, step.key, notes, self._origin(step.key))

    def _origin(self, key: str) -> str:
        return f"in the shared cache, from {self.taken[key]}" if key in self.taken else ""


class BuiltImage(NamedTuple):
    """Hold the image of a build, and whether it was there already."""

    image: Image
    output: BuildOutput
    key: str
    current: bool
    taken: Mapping[str, str] = {}
    """By key: who published the layers and wheels that were taken from the caches of others."""
    sent: SentObjects = SentObjects()
    """The layers and wheels for ``cache_to``, and what became of each."""

    def as_data(self) -> dict[str, Any]:
        """Return it as ``lumicontainer build --json`` prints it."""
        result = {"image": self.output.word, "key": self.key, "built": not self.current}
        rows = [each.as_data() for each in self.sent.objects]
        seconds = {} if self.current else {"seconds": self.image.seconds}
        return {**result, **seconds, "taken": self.taken, "sent": rows}

    def as_text(self) -> Iterator[TextPart]:
        """Yield the name of the image."""
        yield Document(f"{self.output.word}\n")


class Comparison(NamedTuple):
    """Hold the files that differ between two builds of the same layers."""

    layers: int
    files: Sequence[ChangedFile]

    @property
    def failed(self) -> bool:
        """Return whether a file differs for no reason that its layer states."""
        return any(not each.reason for each in self.files)

    def as_data(self) -> list[dict[str, str]]:
        """Return it as ``lumicontainer build --check --json`` prints it."""
        return [each._asdict() for each in self.files]

    def as_text(self) -> Iterator[TextPart]:
        """Yield it as ``lumicontainer build --check`` prints it."""
        files = self.files
        yield TextTable([(e.step, e.path, e.what, e.reason or "not explained") for e in files])
        if not files:
            yield f"{self.layers} layers, the same twice, byte for byte"


class CompiledLayer(NamedTuple):
    """Hold the name of a layer whose wheels are in the cache."""

    name: str


BuildResult: TypeAlias = PlannedBuild | SentBuild | CompiledLayer | Comparison | BuiltImage
