"""Resolve, build, inspect, run and verify images from Python.

Values go in and come out; problems are raised as the exceptions of ``lumicontainer.errors``.
Nothing is printed. The caller's folder, environment, signal handlers and logging stay as they are.
Any thread may call these functions, and a notebook too. An exception that interrupts a call, such
as ``KeyboardInterrupt``, leaves nothing behind.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from lumicontainer.api.image import Image
from lumicontainer.api.values import BuildOptions, Check, OnProgress, Report, SlurmJob
from lumicontainer.core.resolve.decisions import Resolved
from lumicontainer.errors import InputError, Problem
from lumicontainer.host.recipes import resolve_recipe as resolve
from lumicontainer.image import sif
from lumicontainer.system.process import Finished
from lumicontainer.system.terminal.forms import Event

__all__ = [
    "BuildOptions",
    "Check",
    "Event",
    "Finished",
    "Image",
    "OnProgress",
    "Report",
    "Resolved",
    "SlurmJob",
    "build",
    "checks",
    "inspect",
    "resolve",
    "run",
    "verify",
]


def build(
    recipe: str | Path | Resolved,
    output: str | Path | None = None,
    *,
    platform: str | None = None,
    options: BuildOptions | None = None,
    on_progress: OnProgress | None = None,
) -> Image:
    """Build an image and run its quick checks, unless the file is the image already.

    ``recipe`` is a name, a file, or what ``resolve`` returned, which has its platform. ``output``
    is by default the recipe's name with ``.sif`` in the current folder. Raises any error of
    ``lumicontainer.errors``; the file then stays as it was.
    """
    from lumicontainer.api.building import make, order  # noqa: PLC0415 - 60 ms

    resolved = recipe if isinstance(recipe, Resolved) else resolve(recipe, platform=platform)
    found = order(resolved, output, options or BuildOptions())
    if found.docker:
        hint = f"lumicontainer build --output {output} leaves an image in Docker"
        raise InputError(Problem("expected the file of an image", str(output), hint=hint))
    return make(found, on_progress)


def inspect(
    image: str | Path,
    *,
    platform: str | None = None,
    recipes: Path | None = None,
    binds: Sequence[str] = (),
    extensions: Sequence[str | Path] = (),
) -> Image:
    """Return an image, to read its records and to run commands in it.

    It runs with the binds of ``platform``, by default that of this host, which the folder
    ``recipes`` may define; with ``binds`` of yours, as the engine's ``--bind`` takes them; and with
    ``extensions``, the files that ``lumicontainer extend`` wrote. Raises ``InputError`` if the file
    is not an image.
    """
    path = Path(image)
    sif.read_objects(path)
    return Image(path, platform, recipes, tuple(binds), tuple(map(Path, extensions)))


def run(
    image: str | Path,
    command: Sequence[str],
    *,
    platform: str | None = None,
    binds: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> Finished:
    """Run a command in an image; return its ``returncode``, ``stdout`` and ``stderr``.

    ``Image.execute`` can also yield the lines while the command runs.
    """
    found = inspect(image, platform=platform, binds=binds)
    return found.execute(command, environment=environment)


def checks(image: str | Path, *, level: str = "quick", names: Sequence[str] = ()) -> list[Check]:
    """Return the checks in an image that ``verify`` runs for this level or these names."""
    from lumicontainer.verify.subject import chosen, read_subject  # noqa: PLC0415 - as in build

    return chosen(read_subject(Path(image)).checks, level, names)


def verify(  # noqa: PLR0913 - callers pass them by name
    image: str | Path,
    *,
    level: str = "quick",
    names: Sequence[str] = (),
    only: Sequence[Check] | None = None,
    platform: str | None = None,
    recipes: Path | None = None,
    required: str = "",
    job: SlurmJob | None = None,
    on_progress: OnProgress | None = None,
) -> Report:
    """Run the checks of an image on this host, or in a Slurm job; return all results.

    ``level`` is quick, full or perf. ``names`` choose checks of any level, as ``lumicontainer
    verify -k``; ``only`` are the very ones, of those that ``checks`` returned. A check that is
    skipped for want of ``required``, such as "gpu,network", fails.

    Raises no error for a failed check: see ``Report.require``.
    """
    from lumicontainer.api.verifying import Verification, run_verification  # noqa: PLC0415 - as in build

    asked = Verification(
        Path(image), level, names, only, platform, recipes, required=required, job=job
    )
    asked.require_valid()
    return run_verification(asked, on_progress)
