"""Where a step's program runs: in a tree unpacked from the layers below it, or in an overlay.

A layer is made in a tree, where what a program does is what it would do in any folder. The tree
lasts from step to step and from build to build, so that little is unpacked again. fuse-overlayfs is
quicker to begin with, and not exact (1.10: where a file was replaced by a renamed one and that then
removed, the lower layer's file shows again). It serves for compiling, which goes on beside the
steps, and of which the wheels alone are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lumicontainer.build.builder import Ground, StepRun
from lumicontainer.build.tree.snapshot import STATE


def ground_of(run: StepRun, *, apart: bool) -> Ground:
    """Return where a program runs; ``apart`` where nothing is to be built upon its changes."""
    if not apart:
        return Tree(run, run.builder.place.ground)
    return Overlay(run) if run.builder.engine.stacks else Tree(run, run.root / "ground")


class Overlay:
    """Let the engine stack the layers' squashfs under a folder for the changes."""

    def __init__(self, run: StepRun) -> None:
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


class Tree:
    """Unpack the layers, but for what is there already."""

    def __init__(self, run: StepRun, folder: Path) -> None:
        self.run, self.folder = run, folder
        self.tree, self.state = folder / "tree", folder / STATE

    async def prepare(self) -> None:
        """Bring the tree to what the layers make, unless the step before left just that."""
        place, below = self.run.builder.place, [entry.name for entry in self.run.below]
        shared = self.folder == place.ground
        if shared and place.ground_holds == below:
            return
        self.tree.mkdir(parents=True, exist_ok=True)
        self.tree.chmod(0o755)
        place.ground_holds = [] if shared else place.ground_holds
        folders = [str(entry.folder) for entry in self.run.below]
        await self.run.module(
            "lumicontainer.build.tree.checkout", str(self.tree), str(self.state), *folders
        )
        if shared:
            place.ground_holds = below

    def command(self, inside: Sequence[str]) -> list[str]:
        """Return the engine's command that runs ``inside``."""
        # A writable tree is given no mount points by the engine.
        for path, seen_as in self.run.binds().items():
            if path.is_dir():
                _make_folders(self.tree, seen_as.strip("/"))
        run, step = self.run, self.run.builder.engine.step_in
        return step(self.tree, inside, temporary=run.temporary, binds=run.binds())


def _make_folders(tree: Path, path: str) -> None:
    """Make the folders of a path that are missing, whatever the umask: a step may fill them."""
    folder = tree
    for name in path.split("/"):
        folder = folder / name
        if folder.is_symlink():
            return  # It may lead out of the tree.
        if not folder.exists():
            folder.mkdir()
            folder.chmod(0o755)
