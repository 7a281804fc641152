"""Check out layers into a tree; change only paths that differ. Runs in a user namespace.

Usage: python -m lumicontainer.sandbox.tree.checkout TREE STATE LAYER-FOLDER... [--image FOLDER FILE
OFFSET]

STATE describes the tree as it was last read. Paths that have changed since, or that differ in the
layers, are unpacked from their layer. Below the layers may be the file system in an image file of
others, whose index is in a folder.
"""

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from lumicontainer.cache.objects import INDEX, LAYER
from lumicontainer.sandbox.tree import snapshot, without_root
from lumicontainer.sandbox.tree.index import (
    FOLDER,
    GONE,
    Index,
    Merged,
    merge,
    read_index,
    with_links,
)
from lumicontainer.system.files.no_links import remove
from lumicontainer.system.os_errors import run_guarded

_MANY = 5_000
"""The number of paths above which unpacking all layers is faster."""


class Packed(NamedTuple):
    """Hold a layer: its index, and where its squashfs is."""

    rows_in: Path
    squashfs: Path
    offset: int = 0
    foreign: bool = False
    """The paths that its index removes are devices and the like, which are not unpacked."""

    def rows(self) -> Index:
        """Return its index."""
        return read_index(self.rows_in)


def of_folder(folder: Path) -> Packed:
    """Return the layer in a folder."""
    return Packed(folder / INDEX, folder / LAYER)


def check_out(tree: Path, layers: Sequence[Packed], state: Path) -> snapshot.TreeState:
    """Make ``tree`` contain ``layers``, the lowest first; return its state.

    ``state`` has the last known one.
    """
    opened = without_root.open_closed(tree)
    with snapshot.scanning(tree) as scanned:
        known = snapshot.read_state(state)
        want = merge(layer.rows() for layer in layers)
        prints = scanned()
    if not known.rows:  # As after a new base: every file is read.
        known = snapshot.tree_state(tree, prints, known)
    right = {path for path, each in known.prints.items() if prints.get(path) == each}
    wrong = {p for p, row in want.rows.items() if p not in right or known.rows[p] != row}
    wrong = with_links(wrong, want.rows)
    if len(wrong) > _MANY or not all(map(_plain, wrong)):
        _unpack_all(tree, layers)
        now = snapshot.scan(tree)
    else:
        _correct(tree, layers, want, prints, wrong)
        now = {path: each for path, each in prints.items() if path in want.rows}
        now |= {path: snapshot.print_of((tree / path).lstat()) for path in wrong}
    now |= without_root.close(tree, without_root.modes_to_set(want.rows, opened))
    return snapshot.TreeState(now, want.rows)


def _plain(path: str) -> bool:
    return "\n" not in path and "\\" not in path and path.strip() == path and path[0] != "#"


def _unpack_all(tree: Path, layers: Iterable[Packed]) -> None:
    for entry in tree.iterdir():
        remove(entry)
    for layer in layers:
        gone, index = [], layer.rows()
        for path, row in index.items():
            target = tree / path
            if row.kind == GONE:
                gone.append(target)
            if row.kind != FOLDER or target.is_symlink() or not target.is_dir():
                remove(target)
        place = ("-offset", str(layer.offset))
        without_gone = without_root.ORDINARY or layer.foreign
        without_root.unsquash(tree, layer.squashfs, index, *place, without_gone=without_gone)
        for whiteout in gone:
            whiteout.unlink(missing_ok=without_gone)


def _correct(
    tree: Path, layers: Sequence[Packed], want: Merged, prints: snapshot.Prints, wrong: set[str]
) -> None:
    rows, layer_of = want
    for path in prints.keys() - rows.keys():
        remove(tree / path)
    lists: dict[int, list[str]] = {}
    for path in sorted(wrong):
        target = tree / path
        if rows[path].kind == FOLDER:
            if target.is_symlink() or not target.is_dir():
                remove(target)
            snapshot.set_folder(target, rows[path])
            continue
        remove(target)
        lists.setdefault(layer_of[path], []).append(path)
    above: set[Path] = set()
    for number, paths in sorted(lists.items()):
        listed = tree.parent / "wanted"
        listed.write_bytes(os.fsencode("".join(f"{path}\n" for path in paths)))
        layer = layers[number]
        options = ("-offset", str(layer.offset), "-no-wildcards", "-ef", str(listed))
        without_root.unsquash(tree, layer.squashfs, {}, *options)
        listed.unlink()
        above.update(folder for path in paths for folder in Path(path).parents if folder.name)
    # unsquashfs sets the modes of parent folders to its layer's.
    for parent in above:
        snapshot.set_folder(tree / parent, rows[str(parent)])


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("tree", type=Path)
    parser.add_argument("state", type=Path)
    parser.add_argument("layers", nargs="*", type=Path)
    parser.add_argument("--image", nargs=3)
    arguments = parser.parse_args()
    layers = [of_folder(each) for each in arguments.layers]
    if arguments.image:
        folder, file, offset = arguments.image
        layers.insert(0, Packed(Path(folder) / INDEX, Path(file), int(offset), foreign=True))
    snapshot.write_state(arguments.state, check_out(arguments.tree, layers, arguments.state))


if __name__ == "__main__":
    sys.exit(run_guarded(main))
