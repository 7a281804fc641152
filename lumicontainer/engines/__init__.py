"""The programs that build and run containers, behind one protocol.

A new engine is one module with a class that satisfies ``Engine``, and one line in ``ENGINES``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from lumicontainer.engines.apptainer import INTERACTIVE, Apptainer, Singularity
from lumicontainer.errors import HostError, Problem
from lumicontainer.system import process

__all__ = ["ENGINES", "INTERACTIVE", "Engine", "find_engine"]

ENGINES: dict[str, type[Apptainer]] = {"apptainer": Apptainer, "singularity": Singularity}
"""By the name of the program, the preferred one first."""


class Engine(Protocol):
    """Return the commands of an engine; none of these methods starts anything."""

    compression: str
    """The best that it reads in images: a word of mksquashfs."""
    reads_layers: bool
    """Whether it shows the overlays of an image, wherever it runs."""

    @property
    def stacks(self) -> bool:
        """Tell whether it runs steps upon layers, and images that consist of layers."""

    def bootstrap(self, definition: Path, tree: Path) -> list[str]:
        """Return the command that makes the base of ``definition`` in the folder ``tree``."""

    def bootstrap_logs(self, tree: Path, scratch: Path) -> Iterator[Path]:
        """Yield the log of debootstrap while it makes ``tree``; ``scratch`` is the engine's own."""

    def step(
        self,
        layers: Sequence[Path],
        overlay: Path,
        command: Sequence[str],
        *,
        temporary: Path,
        binds: Mapping[Path, str],
    ) -> list[str]:
        """Return the command that runs ``command`` as root upon ``layers``, the lowest first.

        What it changes comes to lie in ``overlay``/upper. ``temporary`` becomes /tmp; each path
        of ``binds`` is seen where it says, read-only.
        """

    def step_in(
        self, tree: Path, command: Sequence[str], *, temporary: Path, binds: Mapping[Path, str]
    ) -> list[str]:
        """Return the command that runs ``command`` as root in the folder ``tree``, changing it."""

    def execute(
        self,
        image: Path,
        command: Sequence[str],
        *,
        binds: Sequence[str],
        environment: Mapping[str, str] | None = None,
        way: str = "exec",
    ) -> list[str]:
        """Return the command that runs ``command`` in an image as the present user.

        ``environment`` wins over what the image sets; its values hold neither quotes nor commas.
        ``way`` is one of ``checkfile.WAYS``, or ``INTERACTIVE``: a shell for people, and no
        ``command``.
        """


def find_engine() -> Engine:
    """Return the engine of this host; raise ``HostError`` where there is none."""
    for name, engine in ENGINES.items():
        path = process.find(name)
        if path is not None:
            return engine(path)
    raise HostError(
        Problem(
            "this host has no container engine",
            where="PATH",
            why=f"none of {', '.join(ENGINES)} is there",
            hint="make engine (in a checkout), or ask your system's support for Apptainer; "
            "lumicontainer doctor lists all that a build needs",
        )
    )
