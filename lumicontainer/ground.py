"""Where a step's program runs: in an overlay upon layers, or in a tree unpacked from them.

Both leave the same changes. The overlay needs an engine that stacks squashfs; the tree serves the
others, and costs the unpacking.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from lumicontainer import cache
from lumicontainer.workspace import remove_tree

if TYPE_CHECKING:
    from lumicontainer.layers import Run


class Ground(Protocol):
    """Run programs upon layers."""

    async def prepare(self) -> None:
        """Make what a program runs upon."""

    def command(self, inside: Sequence[str]) -> list[str]:
        """Return the engine's command that runs ``inside``."""

    async def changes(self) -> Path:
        """Return a folder with what was changed, in the form of an overlay's upper folder."""


def ground_of(run: Run) -> Ground:
    """Return the ground that the engine allows."""
    return Overlay(run) if run.builder.engine.stacks else Tree(run)


class Overlay:
    """Let the engine stack the layers' squashfs under a folder for the changes."""

    def __init__(self, run: Run) -> None:
        self.run, self.folder = run, run.root / "overlay"

    async def prepare(self) -> None:
        """Make the folder for the changes; the root's mode comes from it."""
        for name in ("upper", "work"):
            (self.folder / name).mkdir(parents=True)
            (self.folder / name).chmod(0o755)

    def command(self, inside: Sequence[str]) -> list[str]:
        """Return the engine's command that runs ``inside``."""
        layers = [entry.layer for entry in self.run.below]
        run, step = self.run, self.run.builder.engine.step
        return step(layers, self.folder, inside, temporary=run.temporary, binds=run.binds())

    async def changes(self) -> Path:
        """Return the folder with the changes."""
        return self.folder / "upper"


class Tree:
    """Unpack the layers, and compare afterwards."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.shared = not run.apart
        self.tree = (run.builder.place.root if self.shared else run.root) / "tree"

    async def prepare(self) -> None:
        """Unpack the layers, unless the step before left just them."""
        place, below = self.run.builder.place, [entry.name for entry in self.run.below]
        if self.shared and place.tree_of == below[:-1] and place.tree_of:
            return
        await asyncio.to_thread(remove_tree, self.tree)
        self.tree.mkdir(parents=True)
        self.tree.chmod(0o755)
        for entry in self.run.below:
            await self.run.module("lumicontainer.unpack", str(self.tree), str(entry.folder))

    def command(self, inside: Sequence[str]) -> list[str]:
        """Return the engine's command that runs ``inside``."""
        self._make_mount_points()
        run, step = self.run, self.run.builder.engine.step_in
        return step(self.tree, inside, temporary=run.temporary, binds=run.binds())

    def _make_mount_points(self) -> None:
        """Make the folders onto which the host's are bound: a writable tree is given none."""
        for folder in self.run.builder.site.folders:
            (self.tree / folder.relative_to("/")).mkdir(parents=True, exist_ok=True)

    async def changes(self) -> Path:
        """Return a folder with what differs from the layers below."""
        place = self.run.builder.place
        if self.shared:
            place.tree_of = []
        upper = self.run.root / "upper"
        words = [str(self.tree), str(upper)]
        for entry in self.run.below:
            words += ["--below", str(entry.folder / cache.INDEX)]
        await self.run.module("lumicontainer.compare", *words)
        if self.shared:
            place.tree_of = [entry.name for entry in self.run.below]
        return upper
