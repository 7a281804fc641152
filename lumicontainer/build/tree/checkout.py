"""Check out layers into a tree; change only paths that differ. Runs in a user namespace.

Usage: python -m lumicontainer.build.tree.checkout TREE STATE LAYER-FOLDER...

STATE describes the tree as it was last read. Paths that have changed since, or that differ in the
layers, are unpacked from their layer.
"""

from __future__ import annotations

import gc
import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from lumicontainer.build.cache.store import INDEX, LAYER
from lumicontainer.build.tree.index import FOLDER, GONE, Placed, Row, merge, read_index
from lumicontainer.build.tree.snapshot import (
    Seen,
    State,
    families,
    print_of,
    printed,
    read_state,
    scan,
    set_folder,
    state_of,
    wanted,
    write_state,
)
from lumicontainer.system import process
from lumicontainer.system.os_errors import guarded

_MANY = 5_000
"""The number of paths above which unpacking all layers is faster."""


def wrong_paths(want: dict[str, Row], seen: Seen, known: State) -> set[str]:
    """Return the paths that differ from ``want``, with all hard links of their files."""
    wrong = set()
    for path, row in want.items():
        info, before = seen.get(path), known.get(path)
        if info is None or before is None or before != (print_of(info), row):
            wrong.add(path)
    for names in families(want).values():
        if not wrong.isdisjoint(names):
            wrong.update(names)
    return wrong


def remove(path: Path) -> None:
    """Remove a path of any kind."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def check_out(tree: Path, folders: Sequence[Path], known: State) -> State:
    """Make ``tree`` contain the layers in ``folders``, the lowest first; return its state."""
    top = merge(read_index(folder / INDEX) for folder in folders)
    want, seen = wanted(top), scan(tree)
    # Without a state, as after a new base, every file is read.
    wrong = wrong_paths(want, seen, known or state_of(tree, seen, {}))
    if len(wrong) > _MANY or not all(map(_plain, wrong)):
        _unpack_all(tree, folders)
        return printed(want, scan(tree))
    _correct(tree, folders, top, want, seen=seen, wrong=wrong)
    found = {path: info for path, info in seen.items() if path in want}
    found |= {path: (tree / path).lstat() for path in wrong}
    return printed(want, found)


def _plain(path: str) -> bool:
    return "\n" not in path and "\\" not in path and path.strip() == path and path[0] != "#"


def _unpack_all(tree: Path, folders: Iterable[Path]) -> None:
    for entry in tree.iterdir():
        remove(entry)
    for folder in folders:
        gone = []
        for path, row in read_index(folder / INDEX).items():
            there = tree / path
            if row.kind == GONE:
                gone.append(there)
            if row.kind != FOLDER or there.is_symlink() or not there.is_dir():
                remove(there)
        _unsquash(tree, folder / LAYER)
        for whiteout in gone:
            whiteout.unlink()


def _correct(
    tree: Path,
    folders: Sequence[Path],
    top: Mapping[str, Placed],
    want: dict[str, Row],
    *,
    seen: Seen,
    wrong: set[str],
) -> None:
    for path in seen:
        if path not in want:
            remove(tree / path)
    lists: dict[int, list[str]] = {}
    for path in sorted(wrong):
        there = tree / path
        if want[path].kind == FOLDER:
            if there.is_symlink() or not there.is_dir():
                remove(there)
            set_folder(there, want[path])
            continue
        remove(there)
        lists.setdefault(top[path].layer, []).append(path)
    above: set[str] = set()
    for number, paths in sorted(lists.items()):
        listed = tree.parent / "wanted"
        listed.write_bytes(os.fsencode("".join(f"{path}\n" for path in paths)))
        _unsquash(tree, folders[number] / LAYER, "-no-wildcards", "-ef", str(listed))
        listed.unlink()
        above.update(folder for path in paths for folder in _folders_of(path))
    # unsquashfs sets the modes of parent folders to those of its layer.
    for path in above:
        set_folder(tree / path, want[path])


def _folders_of(path: str) -> Iterable[str]:
    parts = path.split("/")
    return ("/".join(parts[:length]) for length in range(1, len(parts)))


def _unsquash(tree: Path, layer: Path, *options: str) -> None:
    always = ["-force", "-quiet", "-no-progress", "-no-xattrs", "-dest", str(tree)]
    process.capture(["unsquashfs", *always, *options, str(layer)])


def main() -> None:
    """Read the command line."""
    _, tree, state, *layers = map(Path, sys.argv)
    write_state(state, check_out(tree, layers, read_state(state)))


if __name__ == "__main__":
    gc.disable()  # 100,000 small objects without cycles: it saves a third of the time.
    sys.exit(guarded(main))
