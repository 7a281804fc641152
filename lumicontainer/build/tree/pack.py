"""Pack a tree with all its owners. Runs as root of a user namespace, or as an ordinary user.

Usage: python -m lumicontainer.build.tree.pack TREE STATE TARGET OFFSET COMPRESSION

Paths that STATE does not have belong to root if an ordinary user packs.
"""

import os
import sys
from pathlib import Path

from lumicontainer.build.tree import without_root
from lumicontainer.build.tree.snapshot import read_state, require_folders
from lumicontainer.image import squashfs
from lumicontainer.system import process
from lumicontainer.system.os_errors import guarded


def main() -> None:
    """Read the command line."""
    tree, state, target = map(Path, sys.argv[1:4])
    offset, compression = sys.argv[4:]
    # Mksquashfs would use it for times.
    os.environ.pop("SOURCE_DATE_EPOCH", None)
    known = read_state(state).rows
    rows = known if without_root.ORDINARY else {}
    command = squashfs.squash_command(tree, target, int(offset), compression)
    modes = without_root.open_closed(tree)
    try:
        with without_root.pack_options(tree, rows, modes) as options:
            process.run([*command, *options])
        require_folders(tree, known)
    finally:
        without_root.close(tree, modes)


if __name__ == "__main__":
    sys.exit(guarded(main))
