"""The programs that build and run containers, behind one protocol.

A new engine is one module with a class that satisfies ``Engine``, and one line in ``ENGINES``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from lumicontainer import process
from lumicontainer.engines.apptainer import Apptainer
from lumicontainer.errors import HostError, Problem

ENGINES = {"apptainer": Apptainer, "singularity": Apptainer}
"""By the name of the program, the preferred one first."""


class Engine(Protocol):
    """Return the commands of an engine; none of these methods starts anything."""

    def bootstrap(self, definition: Path, tree: Path) -> list[str]:
        """Return the command that makes the base of ``definition`` in the folder ``tree``."""

    def step(
        self, tree: Path, command: Sequence[str], *, temporary: Path, folders: Sequence[Path]
    ) -> list[str]:
        """Return the command that runs ``command`` as root in ``tree``, changing it.

        ``temporary`` becomes /tmp; each of ``folders`` is seen at its own path, read-only.
        """

    def execute(self, image: Path, command: Sequence[str], *, binds: Sequence[str]) -> list[str]:
        """Return the command that runs ``command`` in an image as the present user."""


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
            mend="make engine (in a checkout), or ask your system's support for Apptainer; "
            "lumicontainer doctor lists all that a build needs",
        )
    )
