"""Unpack a layer over a tree, with what it takes away. Runs in a user namespace.

Usage: python -m lumicontainer.unpack TREE LAYER-FOLDER
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from lumicontainer import process
from lumicontainer.cache import INDEX, LAYER
from lumicontainer.files import FOLDER, GONE, read_index


def make_way(tree: Path, index: Path) -> list[Path]:
    """Remove from ``tree`` what the layer replaces; return the paths that it takes away."""
    gone = []
    for path, row in read_index(index).items():
        there = tree / path
        if row.kind == GONE:
            gone.append(there)
        is_folder = there.is_dir() and not there.is_symlink()
        if is_folder and row.kind == FOLDER:
            continue
        if is_folder:
            shutil.rmtree(there)
        else:
            there.unlink(missing_ok=True)
    return gone


def unpack(tree: Path, folder: Path) -> None:
    """Unpack the layer that lies in ``folder`` over ``tree``."""
    gone = make_way(tree, folder / INDEX)
    options = ["-force", "-quiet", "-no-progress", "-no-xattrs", "-dest", str(tree)]
    process.capture(["unsquashfs", *options, str(folder / LAYER)])
    for whiteout in gone:
        whiteout.unlink()


if __name__ == "__main__":
    unpack(Path(sys.argv[1]), Path(sys.argv[2]))
