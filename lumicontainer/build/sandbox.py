"""Run the program of a step in a sandbox: a tree of the layers below it, or an overlay on them.

The tree behaves as any folder. It lasts from step to step and from build to build, so that little
is unpacked twice. fuse-overlayfs starts faster, but is not exact: in 1.10, a removed file
reappears if it had been replaced by rename. It serves for compiling, which runs beside the steps
and of which only the wheels are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lumicontainer.build.builder import StepRun


def uses_overlay(run: StepRun) -> bool:
    """Return whether a step runs in an overlay."""
    return run.apart and run.builder.engine.stacks


def command(run: StepRun, inside: Sequence[str]) -> list[str]:
    """Return the engine's command that runs ``inside`` in the sandbox of a step."""
    engine, binds = run.builder.engine, run.binds()
    if uses_overlay(run):
        layers = [entry.layer for entry in run.below]
        return engine.step(
            layers, run.root / "overlay", inside, temporary=run.temporary, binds=binds
        )
    tree = run.sandbox / "tree"
    # The engine creates no mount points in a writable tree.
    for path, target in binds.items():
        if path.is_dir():
            _make_folders(tree, target.strip("/"))
    return engine.step_in(tree, inside, temporary=run.temporary, binds=binds)


def make_overlay(run: StepRun) -> None:
    """Create the folders of an overlay; the root folder of the container gets their mode."""
    for name in ("upper", "work"):
        folder = run.root / "overlay" / name
        folder.mkdir(parents=True)
        folder.chmod(0o755)


def _make_folders(tree: Path, path: str) -> None:
    """Create the missing folders of a path with mode 0755: a step may fill them."""
    folder = tree
    for name in path.split("/"):
        folder = folder / name
        if folder.is_symlink():
            return  # It may lead out of the tree.
        if not folder.exists():
            folder.mkdir()
            folder.chmod(0o755)
