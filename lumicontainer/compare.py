"""Make a layer of what a tree has changed against the layers below. Runs in a user namespace.

Usage: python -m lumicontainer.compare TREE STATE DRAFT [--drop PATH]... [--secret FILE]...
           LAYER-FOLDER...

What differs is put into a folder like an overlay's upper one, beside the tree: nothing is copied,
the folder gets further names of the tree's files. DRAFT gets the layer. STATE, which tells what the
tree was before, is then what it is now.
"""

from __future__ import annotations

import argparse
import os
import shutil
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from lumicontainer import capture, pack
from lumicontainer.cache import INDEX, LAYER
from lumicontainer.files import FOLDER, Node, Row, merge, read_index
from lumicontainer.tree import (
    families,
    printed,
    read_state,
    scan,
    set_folder,
    state_of,
    wanted,
    write_state,
)


def changed(now: Mapping[str, Row], below: Mapping[str, Row]) -> set[str]:
    """Return the paths that differ from what is below, and all names of a file that does."""
    different = {path for path, row in now.items() if below.get(path) != row}
    for names in families(now).values():
        if not different.isdisjoint(names):
            different.update(names)
    return different


def collect(tree: Path, upper: Path, now: Mapping[str, Row], below: Mapping[str, Row]) -> None:
    """Fill ``upper`` with what differs in ``tree``, and with whiteouts for what is gone."""
    upper.mkdir()
    upper.chmod(0o755)
    for path in sorted(changed(now, below)):
        _make_folders(upper, path.rpartition("/")[0], now)
        if now[path].kind == FOLDER:
            _make_folders(upper, path, now)
        else:
            os.link(tree / path, upper / path, follow_symlinks=False)
    for path in below.keys() - now.keys():
        folder = path.rpartition("/")[0]
        if not folder or (folder in now and now[folder].kind == FOLDER):
            _make_folders(upper, folder, now)
            os.mknod(upper / path, stat.S_IFCHR, 0)


def _make_folders(upper: Path, path: str, now: Mapping[str, Row]) -> None:
    """Make a folder and those above it, as they are in the tree."""
    if not path or (upper / path).is_dir():
        return
    _make_folders(upper, path.rpartition("/")[0], now)
    set_folder(upper / path, now[path])


def compare(tree: Path, state: Path, draft: Path, below: Node, given: argparse.Namespace) -> None:
    """Make the layer, and note what the tree is now."""
    known = state_of(tree, scan(tree), read_state(state))
    rows = {path: each.row for path, each in known.items()}
    upper = tree.parent / "upper"
    if upper.exists():
        shutil.rmtree(upper)
    collect(tree, upper, rows, wanted(below))
    capture.capture(upper, draft / INDEX, below, drop=given.drop, secrets=given.secret)
    os.environ.pop("SOURCE_DATE_EPOCH", None)
    pack.squash_here(upper, draft / LAYER)
    shutil.rmtree(upper)
    # Only now: each further name of a file changed its print.
    write_state(state, printed(rows, scan(tree)))


def main(words: Sequence[str] | None = None) -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser()
    for name in ("tree", "state", "draft"):
        parser.add_argument(name, type=Path)
    parser.add_argument("folders", type=Path, nargs="+")
    capture.add_options(parser)
    given = parser.parse_args(words)
    below = merge(read_index(folder / INDEX) for folder in given.folders)
    compare(given.tree, given.state, given.draft, below, given)


if __name__ == "__main__":
    main()
