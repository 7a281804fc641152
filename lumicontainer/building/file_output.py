"""An image file as the output of a build."""

import time
from dataclasses import dataclass
from pathlib import Path

from lumicontainer.building import pipeline
from lumicontainer.building.image_place import check_output, require_replaceable
from lumicontainer.building.output import OutputState
from lumicontainer.cache import proven, usage
from lumicontainer.core.plan.steps import Plan
from lumicontainer.errors import InputError
from lumicontainer.image import digests, integrity, records, sif
from lumicontainer.sandbox.builder import Builder
from lumicontainer.system.waiting import complete


@dataclass(frozen=True)
class FileOutput:
    """Name the file of an image."""

    file: Path

    @property
    def path(self) -> Path:
        """Return the file by its absolute path."""
        return self.file.absolute()

    @property
    def word(self) -> str:
        """Return the file by its absolute path."""
        return str(self.path)

    @property
    def name(self) -> str:
        """Return the name of the file."""
        return self.file.name

    def runtime(self, named: str | None) -> str | None:
        """Return ``named``: every runtime can build a file."""
        return named

    def look(self, plan: Plan, date: str, *, verify: bool, fresh: bool) -> OutputState:
        """Return whether a file is what a build would make, and the warning if its bytes changed.

        Raises ``InputError`` if the file cannot be written or is not an image.
        """
        check_output(self.path)
        if fresh or not self.path.exists():
            return OutputState(current=False)
        try:
            sif.root(self.path)
            checked = not verify or records.checked(self.path)
            same = records.key(self.path) == plan.steps[-1].key
            if not (checked and same and records.build_date(self.path) == date):
                return OutputState(current=False)
            result = proven.is_whole(self.path)
        except (InputError, ValueError):
            return OutputState(current=False)
        check_output(self.path)  # Another user may have put it there meanwhile.
        if result.state == digests.WHOLE:
            return OutputState(current=True)
        hint = "do nothing: this build replaces it"
        warning = integrity.problem(self.path, result, level="warning")._replace(hint=hint)
        return OutputState(current=False, warnings=(warning,))

    def require_replaceable(self) -> None:
        """Raise ``InputError`` if the old image has an overlay (``singularity overlay create``)."""
        require_replaceable(self.path)

    def build(self, builder: Builder, *, verify: bool) -> None:
        """Build the file; then note which layers it has, and prune the cache."""
        begun, path = time.monotonic(), self.path
        usage.wanted_limit()  # An invalid size ends the command before it builds.
        stack = complete(pipeline.build(builder, path, verify=verify), builder.progress)
        usage.settle(builder.cache, stack, builder.progress.say, path)
        size = f"{path.stat().st_size / 1e6:.0f} MB"
        builder.progress.say(f"{path.name}: {size} in {time.monotonic() - begun:.0f} s")
