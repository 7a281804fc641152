"""Pin everything that goes into an image."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from lumicontainer.api.recipes import RecipeRequest
from lumicontainer.api.values import OnProgress, progress_of
from lumicontainer.core.lock import file_name
from lumicontainer.core.plan.plan import planned
from lumicontainer.core.resolve.decisions import Resolved
from lumicontainer.errors import InputError, Problem
from lumicontainer.host.mirrors import read_mirrors
from lumicontainer.host.recipes import write_lock
from lumicontainer.pinning.pin import make_lock
from lumicontainer.system.files.partial import require_folder_of
from lumicontainer.system.terminal.text import Document, TextPart


@dataclass(frozen=True)
class LockRequest(RecipeRequest):
    """Say which image is pinned, and in which file."""

    output: Path | None = None
    """By default in ``locks/`` next to the recipe, where a locked build reads it."""
    mirrors: Sequence[str] = ()
    """Texts ``FROM=TO``: URLs, and what is read in their place."""


class WrittenLock(NamedTuple):
    """Hold the file of a lock, and how many inputs it pins, and leaves open."""

    path: Path
    pins: int
    unpinned: int

    def as_data(self) -> dict[str, Any]:
        """Return it as ``lumicontainer lock --json`` prints it."""
        return {**self._asdict(), "path": str(self.path)}

    def as_text(self) -> Iterator[TextPart]:
        """Yield the path of the lock."""
        yield Document(f"{self.path}\n")


def lock(request: LockRequest, on_progress: OnProgress | None = None) -> WrittenLock:
    """Write the lock of an image.

    Raises ``InputError`` for a wrong recipe or output, and ``DownloadError`` or ``StepError`` if a
    version cannot be found. An input without a pin is not an error.
    """
    resolved = request.resolve()
    mirrors = read_mirrors(request.mirrors)
    output = _place(request, resolved)
    with progress_of(on_progress) as progress:
        pinned = make_lock(resolved, plan_of=planned, mirrors=mirrors, progress=progress)
    write_lock(pinned, output)
    return WrittenLock(output, pinned.pins(), sum(1 for _ in pinned.still_open()))


def _place(request: LockRequest, resolved: Resolved) -> Path:
    output = request.output
    if output is None:
        folder = request.open_catalog().locks(resolved.recipe.name)
        folder.mkdir(parents=True, exist_ok=True)
        output = folder / file_name(resolved)
    require_folder_of(output, "lock")
    if output.is_dir():
        raise InputError(Problem("the lock is a folder", str(output), hint="name a file"))
    return output
