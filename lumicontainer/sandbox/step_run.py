"""The values of one run of a step's program in a sandbox."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lumicontainer.core.model import LayerFile
from lumicontainer.core.plan.steps import MEMORY_PER_JOB
from lumicontainer.engines import StepMounts
from lumicontainer.sandbox.builder import BaseImage, Builder, Stack
from lumicontainer.sandbox.runtimes.runtime import Sandbox
from lumicontainer.sandbox.tree.snapshot import STATE
from lumicontainer.system.terminal.progress import Task

STAGED = ".lumicontainer"
"""The folder in /tmp of a step with the files that the host passes in."""


@dataclass
class StepRun:
    """Hold what one run of a step's program works with."""

    builder: Builder
    name: str
    below: Stack
    task: Task
    apart: bool = False
    """Discard the changes: run in an overlay, or in a separate tree."""
    as_user: bool = False
    """The program needs no rights of root."""
    secret_names: Sequence[str] = ()
    files: Iterable[LayerFile] = ()
    """The files that the host writes into the tree before the program runs."""
    output: Path | None = None
    memory_per_job: int = MEMORY_PER_JOB

    @property
    def image(self) -> BaseImage | None:
        """Return the data below the layers, if their base is an image file."""
        return self.builder.images.get(self.below[0].name) if self.below else None

    @property
    def jobs(self) -> int:
        """Return the number of compile jobs."""
        return self.builder.jobs_of(self.memory_per_job)

    @property
    def root(self) -> Path:
        """Return the folder of the run."""
        # The prefix keeps the name of a layer apart from other names in the workspace.
        return self.builder.place.root / f"step-{self.name.replace(': ', '.')}"

    @property
    def temporary(self) -> Path:
        """Return the folder that is /tmp in the container."""
        return self.root / "tmp"

    @property
    def staged(self) -> Path:
        """Return the folder of the files that the host passes in."""
        return self.temporary / STAGED

    @property
    def wheels(self) -> Path:
        """Return the folder of the wheels that the program gets or leaves."""
        return self.staged / "wheels"

    @property
    def sandbox(self) -> Path:
        """Return the folder that has the tree and its state."""
        return self.root / "sandbox" if self.apart else self.builder.place.sandbox

    def command(self, inside: Sequence[str], first: Sequence[str] = ()) -> list[str]:
        """Return the command that runs ``inside`` in the sandbox.

        If it runs as the user, root runs ``first`` before.
        """
        base = [self.image.source.path] if self.image else []
        layers = [*base, *(entry.layer for entry in self.below)]
        mounts = StepMounts(self.temporary, self.binds())
        tree, state = self.sandbox / "tree", self.sandbox / STATE
        sandbox = Sandbox(self.root, tree, layers, mounts, state, self.apart, self.as_user, first)
        return self.builder.runtime.step(sandbox, inside)

    @property
    def writes(self) -> Sequence[Path]:
        """Return the folders that are written, besides the build's and the cache's."""
        return [self.output.parent] if self.output else []

    def binds(self) -> dict[Path, str]:
        """Return the host paths that the program sees, with their container paths."""
        folders = {folder: str(folder) for folder in self.builder.site.folders}
        names = self.secret_names
        return folders | {
            self.builder.secrets[name]: f"/tmp/{STAGED}/secrets/{name}" for name in names
        }
