"""Unpack a saved image of a registry.

Usage: python -m lumicontainer.sandbox.tree.foreign.unpack_image FOLDER TREE RECORD

FOLDER has what ``host.registry`` saved; TREE is new. RECORD gets the owners by inode that an
ordinary user cannot give, as ``build.tree.owners`` writes them.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from lumicontainer.host.manifests import read_saved
from lumicontainer.sandbox.tree.foreign.archive import Archive
from lumicontainer.sandbox.tree.foreign.layer import Allowance, open_layer
from lumicontainer.sandbox.tree.foreign.settle import settle
from lumicontainer.sandbox.tree.foreign.tree import Tree
from lumicontainer.system.os_errors import run_guarded


def unpack(tree: Tree, *layers: Path) -> None:
    """Unpack layers over those below, the lowest first."""
    allowance = Allowance(layers)
    for layer in layers:
        tree.begin_layer()
        with open_layer(layer, allowance) as stream:
            archive = Archive(stream)
            for member in archive:
                tree.add(member, archive.pieces())


def unpack_layers(root: Path, layers: Sequence[Path]) -> Tree:
    """Unpack the layers of an image, the lowest first, into a new folder."""
    root.mkdir()
    root.chmod(0o755)
    tree = Tree(root)
    unpack(tree, *layers)
    return tree


def main() -> None:
    """Read the command line."""
    folder, root, record = map(Path, sys.argv[1:])
    saved = read_saved(folder)
    os.umask(0o022)
    rows = settle(unpack_layers(root, saved.layers), saved.environment)
    if os.geteuid():
        record.write_text("".join(rows))


if __name__ == "__main__":
    sys.exit(run_guarded(main))
