"""Make a layer of the changes in a tree since its last state. Runs in a user namespace.

Usage: python -m lumicontainer.build.tree.capture TREE STATE DRAFT [--drop PATH]... <SECRETS

Changed files are hard-linked into a folder beside the tree, which has the form of an upper folder.
DRAFT gets the layer. STATE describes the tree, first before the changes, then after them; without
STATE all files are new.
"""

from __future__ import annotations

import argparse
import gc
import os
import shutil
import stat
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from lumicontainer.build.cache.store import INDEX, LAYER, LISTING
from lumicontainer.build.tree import list_layer
from lumicontainer.build.tree.index import FILE, FOLDER, GONE, Row, write_index
from lumicontainer.build.tree.snapshot import (
    State,
    families,
    print_of,
    read_state,
    scan,
    set_folder,
    state_of,
    write_state,
)
from lumicontainer.image import squashfs
from lumicontainer.system.os_errors import guarded
from lumicontainer.system.terminal import masking

LEAKS = "leaks"
"""The file of a draft that lists the paths that contain a secret."""


_MARK = ".wh."


def changed(now: Mapping[str, Row], below: Mapping[str, Row]) -> set[str]:
    """Return the paths that differ from the layers below, with all hard links of their files."""
    different = {path for path, row in now.items() if below.get(path) != row}
    for names in families(now).values():
        if not different.isdisjoint(names):
            different.update(names)
    return different


def without_mounts(
    paths: set[str], now: Mapping[str, Row], below: Mapping[str, Row], drop: Iterable[str]
) -> set[str]:
    """Return ``paths`` without empty folders that were created as mount points."""
    kept = set(paths)
    for mount in drop:
        parts = mount.strip("/").split("/")
        for length in range(len(parts), 0, -1):
            name = "/".join(parts[:length])
            if name in below or any(path.startswith(f"{name}/") for path in kept):
                break
            if name in now and now[name].kind == FOLDER:
                kept.discard(name)
    return kept


def collect(tree: Path, upper: Path, now: Mapping[str, Row], rows: Mapping[str, Row]) -> None:
    """Fill ``upper`` with the paths of ``rows``; a removed path becomes a whiteout."""
    upper.mkdir()
    upper.chmod(0o755)
    for path, row in sorted(rows.items()):
        _make_folders(upper, path.rpartition("/")[0], now)
        if row.kind == GONE:
            os.mknod(upper / path, stat.S_IFCHR, 0)
        elif row.kind == FOLDER:
            _make_folders(upper, path, now)
        else:
            os.link(tree / path, upper / path, follow_symlinks=False)


def layer_rows(
    now: Mapping[str, Row], below: Mapping[str, Row], drop: Iterable[str]
) -> dict[str, Row]:
    """Return the index of the layer that turns ``below`` into ``now``."""
    rows = {path: now[path] for path in without_mounts(changed(now, below), now, below, drop)}
    for path in below.keys() - now.keys():
        folder = path.rpartition("/")[0]
        if not folder or (folder in now and now[folder].kind == FOLDER):
            rows[path] = Row(GONE)
    for path in list(rows):
        while path := path.rpartition("/")[0]:
            rows.setdefault(path, now[path])
    return rows


def _make_folders(upper: Path, path: str, now: Mapping[str, Row]) -> None:
    if not path or (upper / path).is_dir():
        return
    _make_folders(upper, path.rpartition("/")[0], now)
    set_folder(upper / path, now[path])


def leaking(tree: Path, rows: Mapping[str, Row]) -> list[str]:
    """Return the paths of a layer with a secret in content, name, link target or attributes.

    Layers have no extended attributes, but the tree has them.
    """
    if not masking.searched():
        return []
    there = {path: row for path, row in rows.items() if row.kind != GONE}
    return [f"/{path}" for path, row in there.items() if _shows(tree / path, path, row)]


def _shows(path: Path, name: str, row: Row) -> bool:
    if masking.holds(os.fsencode(name)):
        return True
    if path.is_symlink():
        return masking.holds(os.fsencode(path.readlink()))
    attributes = os.listxattr(path, follow_symlinks=False)
    if any(masking.holds(os.fsencode(each) + os.getxattr(path, each)) for each in attributes):
        return True
    return row.kind == FILE and masking.holds(path.read_bytes())


def compare(tree: Path, state: Path, draft: Path, given: argparse.Namespace) -> None:
    """Make the layer, and write the state of the tree."""
    before = read_state(state)
    known = state_of(tree, scan(tree), before)
    now = {path: each.row for path, each in known.items()}
    below = {path: each.row for path, each in before.items()}
    rows = layer_rows(now, below, given.drop)
    if names := sorted(path for path in rows if path.rpartition("/")[2].startswith(_MARK)):
        named = "".join(f"\n  /{path}" for path in names)
        sys.exit(f"error: engines read names that begin with {_MARK} as removals:{named}")
    upper = tree.parent / "upper"
    if upper.exists():
        shutil.rmtree(upper)
    collect(tree, upper, now, rows)
    write_index(draft / INDEX, rows)
    if leaks := leaking(tree, rows):
        (draft / LEAKS).write_bytes(masking.masked_bytes(os.fsencode("\n".join(leaks))))
    else:
        os.environ.pop("SOURCE_DATE_EPOCH", None)
        squashfs.squash_here(upper, draft / LAYER)
        list_layer.write(upper, draft / LISTING)
    shutil.rmtree(upper)
    _update_prints(tree, known, rows)
    write_state(state, known)


def _update_prints(tree: Path, known: State, paths: Iterable[str]) -> None:
    """Update the prints of files, because hard links change their ctime."""
    for path in paths:
        if path in known:
            info = (tree / path).lstat()
            known[path] = known[path]._replace(print=print_of(info))


def main(words: Sequence[str] | None = None) -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser()
    for name in ("tree", "state", "draft"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--drop", action="append", default=[])
    given = parser.parse_args(words)
    masking.load(sys.stdin.buffer.read())
    compare(given.tree, given.state, given.draft, given)


if __name__ == "__main__":
    gc.disable()  # 100,000 small objects without cycles: it saves a third of the time.
    sys.exit(guarded(main))
