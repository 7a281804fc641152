"""List the files of a layer that the cache has no list of. Runs in a user namespace.

Usage: python -m lumicontainer.build.tree.list_layer LAYER FOLDER TARGET

The layer is unpacked into FOLDER, which is removed at the end.
"""

from __future__ import annotations

import gzip
import shutil
import sys
from pathlib import Path

from lumicontainer.inside.image import listing
from lumicontainer.system import process
from lumicontainer.system.os_errors import guarded


def write(tree: Path, target: Path) -> None:
    """Write the list of an unpacked layer; equal layers give equal bytes."""
    text = listing.dump(listing.of_layer(str(tree)))
    target.write_bytes(gzip.compress(text.encode(), 1, mtime=0))


def main() -> None:
    """Read the command line."""
    _, layer, folder, target = sys.argv
    words = ["-force", "-quiet", "-no-progress", "-no-xattrs", "-dest", folder, layer]
    process.capture(["unsquashfs", *words])
    write(Path(folder), Path(target))
    shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(guarded(main))
