"""List the files of a layer that the cache has no list of. Runs in a user namespace.

Usage: python -m lumicontainer.build.tree.list_layer LAYER FOLDER TARGET

The layer is unpacked into FOLDER, which is removed at the end. Its index lies beside it.
"""

import gzip
import shutil
import stat
import sys
from pathlib import Path

from lumicontainer.build.cache.store import INDEX
from lumicontainer.build.tree import without_root
from lumicontainer.build.tree.index import Index, read_index
from lumicontainer.inside.image import listing
from lumicontainer.system.files.write import give_to_owners
from lumicontainer.system.os_errors import guarded


def write(tree: Path, target: Path, rows: Index) -> None:
    """Write the list of an unpacked layer with an index; equal layers give equal bytes."""
    found: dict[str, listing.Row | None] = dict(listing.of_layer(str(tree)))
    for path, row in rows.items() if without_root.ORDINARY else ():
        known = found.get(path)
        found[path] = known and known._replace(mode=stat.S_IFMT(known.mode) | row.mode)
    text = listing.dump(found)
    target.write_bytes(gzip.compress(text.encode(), 1, mtime=0))


def main() -> None:
    """Read the command line."""
    _, layer, folder, target = sys.argv
    rows = read_index(Path(layer).with_name(INDEX))
    without_root.unsquash(Path(folder), Path(layer), rows)
    write(Path(folder), Path(target), rows)
    shutil.rmtree(folder)
    give_to_owners([Path(target)])


if __name__ == "__main__":
    sys.exit(guarded(main))
