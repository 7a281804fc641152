"""Make a layer of the changes in a tree since its last state. Runs in a user namespace.

Usage: python -m lumicontainer.sandbox.tree.capture TREE STATE DRAFT [OPTION]...

Changed files are hard-linked into a folder next to the tree, which has the form of an upper folder.
DRAFT gets the layer. STATE describes the tree, first before the changes, then after them; without
STATE all files are new. An ordinary user's tree has its owners in RECORD. Stdin has the secrets;
it ends when the changes are complete, and until then only STATE is read.
"""

import argparse
import os
import shutil
import stat
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from lumicontainer.cache.objects import INDEX, LAYER
from lumicontainer.image import squashfs
from lumicontainer.sandbox.tree import snapshot, without_root
from lumicontainer.sandbox.tree.index import FILE, FOLDER, GONE, Index, Row, with_links, write_index
from lumicontainer.sandbox.tree.owners import read_owners
from lumicontainer.sandbox.tree.snapshot import Prints, TreeState, print_of
from lumicontainer.sandbox.tree.without_root import ORDINARY
from lumicontainer.system import process
from lumicontainer.system.files.write import give_to_owners
from lumicontainer.system.os_errors import run_guarded
from lumicontainer.system.terminal import masking

LEAKS = "leaks"
"""The file of a draft that lists the paths that contain a secret."""


_MARK = ".wh."
_SETUID = stat.S_ISUID | stat.S_ISGID


def without_mounts(paths: set[str], now: Index, below: Index, drop: Iterable[str]) -> set[str]:
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


def collect(tree: Path, upper: Path, now: Index, rows: Index) -> None:
    """Fill ``upper`` with the paths of ``rows``; a removed path becomes a whiteout."""
    upper.mkdir()
    upper.chmod(0o755)
    for path, row in sorted(rows.items()):
        _make_folders(upper, path.rpartition("/")[0], now)
        if row.kind == GONE:
            if not ORDINARY:
                os.mknod(upper / path, stat.S_IFCHR, 0)
        elif row.kind == FOLDER:
            _make_folders(upper, path, now)
        else:
            os.link(tree / path, upper / path, follow_symlinks=False)


def layer_rows(
    now: Index, below: Index, drop: Iterable[str], keep: Iterable[str] = ()
) -> dict[str, Row]:
    """Return the index of the layer that turns ``below`` into ``now``.

    The folders ``keep`` are in it even if they hold a mount point, which earlier layers left out.
    """
    changed = with_links({path for path, row in now.items() if below.get(path) != row}, now)
    rows = {path: now[path] for path in without_mounts(changed, now, below, drop)}
    kept = (path.strip("/") for path in keep)
    rows |= {path: now[path] for path in kept if path in now and now[path].kind == FOLDER}
    for path in below.keys() - now.keys():
        folder = path.rpartition("/")[0]
        if not folder or (folder in now and now[folder].kind == FOLDER):
            rows[path] = Row(GONE)
    for path in list(rows):
        while path := path.rpartition("/")[0]:
            rows.setdefault(path, now[path])
    return rows


def _make_folders(upper: Path, path: str, now: Index) -> None:
    if not path or (upper / path).is_dir():
        return
    _make_folders(upper, path.rpartition("/")[0], now)
    snapshot.set_folder(upper / path, now[path])


def leaking(tree: Path, rows: Index) -> list[str]:
    """Return the paths of a layer with a secret in content, name, link target or attributes.

    Layers have no extended attributes, but the tree has them.
    """
    if not masking.searched():
        return []
    present = {path: row for path, row in rows.items() if row.kind != GONE}
    return [f"/{path}" for path, row in present.items() if _shows(tree / path, path, row)]


def _shows(path: Path, name: str, row: Row) -> bool:
    if masking.holds(os.fsencode(name)):
        return True
    if path.is_symlink():
        return masking.holds(os.fsencode(path.readlink()))
    attributes = os.listxattr(path, follow_symlinks=False)
    if any(masking.holds(os.fsencode(each) + os.getxattr(path, each)) for each in attributes):
        return True
    if row.kind != FILE:
        return False
    with path.open("rb") as file:
        return masking.holds_in(file)


def compare(before: TreeState, arguments: argparse.Namespace) -> None:
    """Make the layer, and write the state of the tree."""
    modes = without_root.open_closed(arguments.tree)
    try:
        prints, now = _layer(before, arguments, modes)
    finally:
        closed = without_root.close(arguments.tree, modes)
    prints |= closed
    snapshot.write_state(arguments.state, TreeState(prints, now))


def _layer(
    before: TreeState, arguments: argparse.Namespace, modes: dict[str, int]
) -> tuple[Prints, dict[str, Row]]:
    """Make the layer; return the prints and rows of the tree. ``modes`` differ from the disk's."""
    tree, draft, prints = arguments.tree, arguments.draft, snapshot.scan(arguments.tree)
    now = snapshot.tree_state(
        tree, prints, before, read_owners(arguments.owners) if ORDINARY else None
    )
    now.rows.update({path: now.rows[path]._replace(mode=mode) for path, mode in modes.items()})
    if arguments.clear_setuid:
        _clear_setuid(tree, now.rows, modes)
    rows = layer_rows(now.rows, before.rows, arguments.drop, arguments.keep)
    if names := sorted(path for path in rows if path.rpartition("/")[2].startswith(_MARK)):
        named = "".join(f"\n  /{path}" for path in names)
        sys.exit(f"error: engines read names that begin with {_MARK} as removals:{named}")
    upper = tree.parent / "upper"
    if upper.exists():
        shutil.rmtree(upper)
    collect(tree, upper, now.rows, rows)
    write_index(draft / INDEX, rows)
    if leaks := leaking(tree, rows):
        (draft / LEAKS).write_bytes(masking.masked_bytes(os.fsencode("\n".join(leaks))))
    else:
        os.environ.pop("SOURCE_DATE_EPOCH", None)
        changed = {path: row.mode for path, row in rows.items()}
        with without_root.pack_options(upper, rows, changed) as options:
            process.run([*squashfs.squash_command(upper, draft / LAYER), *options])
    shutil.rmtree(upper)
    snapshot.require_folders(tree, now.rows)
    give_to_owners(draft.iterdir())
    # Hard links change the ctime of files.
    prints |= {path: print_of((tree / path).lstat()) for path in rows if path in prints}
    return prints, now.rows


def _clear_setuid(tree: Path, rows: dict[str, Row], modes: dict[str, int]) -> None:
    """Clear setuid and setgid of the files in the folders for programs."""
    for path, row in rows.items():
        if row.kind == FILE and row.mode & _SETUID and path.startswith(("usr/", "opt/")):
            mode = row.mode & ~_SETUID
            rows[path] = row._replace(mode=mode)
            if path in modes:
                modes[path] = mode
            else:
                (tree / path).chmod(mode)


def main(words: Sequence[str] | None = None) -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser()
    for name in ("tree", "state", "draft"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--owners", type=Path, default=Path("/nonexistent"))
    parser.add_argument("--clear-setuid", action="store_true")
    for name in ("--drop", "--keep"):
        parser.add_argument(name, action="append", default=[])
    arguments = parser.parse_args(words)
    before = snapshot.read_state(arguments.state)
    masking.load(sys.stdin.buffer.read())
    compare(before, arguments)


if __name__ == "__main__":
    sys.exit(run_guarded(main))
