"""Put what a tree has changed against layers into a folder like an overlay's. In a user namespace.

Usage: python -m lumicontainer.compare TREE UPPER [--below INDEX]...

Nothing is copied: the folder gets further names of the tree's files.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from lumicontainer.files import FILE, FOLDER, Node, Row, kind_of, merge, read_index


def describe(path: Path) -> Row:
    """Return what a path is; ``link`` is its inode where it has several names."""
    info = path.lstat()
    kind = kind_of(info)
    what = ""
    if kind == FILE:
        what = hashlib.sha256(path.read_bytes()).hexdigest()
    elif stat.S_ISLNK(info.st_mode):
        what = str(path.readlink())
    elif info.st_rdev:
        what = f"{info.st_rdev:x}"
    link = str(info.st_ino) if kind == FILE and info.st_nlink > 1 else ""
    return Row(kind, stat.S_IMODE(info.st_mode), info.st_uid, info.st_gid, what, link)


def scan(tree: Path, prefix: str = "") -> Iterator[tuple[str, Row]]:
    """Yield every path of a tree, parents first."""
    for entry in sorted((tree / prefix).iterdir()):
        path = f"{prefix}{entry.name}"
        row = describe(entry)
        yield path, row
        if row.kind == FOLDER:
            yield from scan(tree, f"{path}/")


def changed(now: dict[str, Row], below: Node) -> Iterator[str]:
    """Yield the paths that differ from what is below, and all names of a file that does in one."""
    different = {path for path, row in now.items() if not _same(row, below.find(path))}
    groups: dict[str, list[str]] = {}
    for path, row in now.items():
        if row.link:
            groups.setdefault(row.link, []).append(path)
    for paths in groups.values():
        nodes = [below.find(path) for path in paths]
        if len({node.row.link if node else None for node in nodes}) > 1 or not different.isdisjoint(
            paths
        ):
            different.update(paths)
    return iter(sorted(different))


def _same(row: Row, node: Node | None) -> bool:
    return node is not None and node.row._replace(link="") == row._replace(link="")


def main(words: Sequence[str] | None = None) -> int:
    """Fill the folder."""
    parser = argparse.ArgumentParser()
    parser.add_argument("tree", type=Path)
    parser.add_argument("upper", type=Path)
    parser.add_argument("--below", type=Path, action="append", default=[])
    given = parser.parse_args(words)
    below = merge(map(read_index, given.below))
    now = dict(scan(given.tree))
    given.upper.mkdir(mode=0o755)
    for path in changed(now, below):
        _take(given.tree, given.upper, path, now)
    for path, _ in below.walk():
        folder = path.rpartition("/")[0]
        if path not in now and (not folder or (folder in now and now[folder].kind == FOLDER)):
            _folders(given.upper, folder, now)
            os.mknod(given.upper / path, stat.S_IFCHR, 0)
    return 0


def _take(tree: Path, upper: Path, path: str, now: dict[str, Row]) -> None:
    _folders(upper, path.rpartition("/")[0], now)
    if now[path].kind == FOLDER:
        _folders(upper, path, now)
    else:
        os.link(tree / path, upper / path, follow_symlinks=False)


def _folders(upper: Path, path: str, now: dict[str, Row]) -> None:
    """Make a folder and those above it, as they are in the tree."""
    if not path or (upper / path).is_dir():
        return
    _folders(upper, path.rpartition("/")[0], now)
    row = now[path]
    (upper / path).mkdir()
    os.chown(upper / path, row.uid, row.gid)
    (upper / path).chmod(row.mode)


if __name__ == "__main__":
    raise SystemExit(main())
