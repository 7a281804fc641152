"""The programs that build and run containers, behind one protocol.

A new engine is a module with a class that satisfies ``Engine``, and one line in ``ENGINES``.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from lumicontainer.engines.apptainer import (
    INSTANCE,
    INTERACTIVE,
    Apptainer,
    Singularity,
    StepMounts,
)
from lumicontainer.errors import HostError, Problem
from lumicontainer.system import process

__all__ = ["ENGINES", "INSTANCE", "INTERACTIVE", "Engine", "StepMounts", "find_engine", "prefixed"]

_PREFIXES = ("APPTAINER", "SINGULARITY")

ENGINES: dict[str, type[Apptainer]] = {"apptainer": Apptainer, "singularity": Singularity}


class Engine(Protocol):
    """Return the commands of an engine. No method starts a program."""

    compression: str
    """The best compression that it reads, a name of mksquashfs."""
    reads_layers: bool
    """Whether it mounts the overlays of an image on every host."""

    @property
    def stacks(self) -> bool:
        """Return whether it can overlay layers on this host."""

    def bootstrap(self, definition: Path, tree: Path) -> list[str]:
        """Return the command that builds ``definition`` in the folder ``tree``."""

    def bootstrap_logs(self, tree: Path, scratch: Path) -> Iterator[Path]:
        """Yield the log of debootstrap while it fills ``tree``; ``scratch`` is the engine's own."""

    def step(
        self, layers: Sequence[Path], overlay: Path, command: Sequence[str], mounts: StepMounts
    ) -> list[str]:
        """Return the command that runs ``command`` as root on ``layers``, the lowest first.

        Changes go to ``overlay``/upper.
        """

    def step_in(self, tree: Path, command: Sequence[str], mounts: StepMounts) -> list[str]:
        """Return the command that runs ``command`` as root in the writable folder ``tree``."""

    def compile_in(self, tree: Path, command: Sequence[str], mounts: StepMounts) -> list[str]:
        """Return the command that runs ``command`` as the user in the writable folder ``tree``."""

    def execute(
        self,
        image: Path | str,
        command: Sequence[str],
        *,
        binds: Sequence[str],
        environment: Mapping[str, str] | None = None,
        way: str = "exec",
    ) -> list[str]:
        """Return the command that runs ``command`` in an image as the current user.

        ``environment`` overrides the image; its values have neither quotes nor commas. ``way`` is a
        start mode of checks, or ``INTERACTIVE``: a shell for people, without ``command``, or
        ``INSTANCE``: an instance, whose name is ``command``.
        """


def prefixed(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of an engine's process that set ``variables`` in its container.

    Unlike options, they are not readable by other users, and hold any text.
    """
    if not variables:
        return {}
    found = {f"{prefix}ENV_{name}": v for prefix in _PREFIXES for name, v in variables.items()}
    return found | {f"{prefix}_NO_EVAL": "1" for prefix in _PREFIXES}


def find_engine() -> Engine:
    """Return the engine of this host; raise ``HostError`` if it has none."""
    for name, engine in ENGINES.items():
        path = process.find(name)
        if path is not None:
            return engine(path)
    why = f"none of {', '.join(ENGINES)} is installed"
    hint = (
        "make engine (in a checkout), or ask your system's support for Apptainer; "
        "lumicontainer doctor lists what a build needs"
    )
    raise HostError(Problem("container engine not found", "PATH", why, hint))
