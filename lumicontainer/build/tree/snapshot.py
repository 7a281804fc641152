"""Record the state of an unpacked tree, and detect changed paths."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import stat
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple, TypeAlias

from lumicontainer.build.tree.index import FILE, FOLDER, SYMLINK, Placed, Row, kind_of

Seen: TypeAlias = "dict[str, os.stat_result]"


class Known(NamedTuple):
    """Hold the row of a path, and its print at that time."""

    print: str
    row: Row


State: TypeAlias = "dict[str, Known]"

STATE = "state.json.gz"


def print_of(info: os.stat_result) -> str:
    """Return a text that changes with the path: only the kernel sets ctime."""
    # A folder's ctime changes with its entries, which have their own prints.
    if stat.S_ISDIR(info.st_mode):
        return f"{info.st_ino}:{info.st_mode}:{info.st_uid}:{info.st_gid}"
    return f"{info.st_ino}:{info.st_ctime_ns}:{info.st_size}"


def scan(tree: Path) -> Seen:
    """Return the stat result of every path in a tree, parents first."""
    found: Seen = {}
    _scan(str(tree), "", found)
    return found


def _scan(folder: str, prefix: str, found: Seen) -> None:
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda each: each.name):
            path = prefix + entry.name
            info = entry.stat(follow_symlinks=False)
            found[path] = info
            if stat.S_ISDIR(info.st_mode):
                _scan(entry.path, f"{path}/", found)


def describe(path: Path, info: os.stat_result) -> Row:
    """Return the row of a path, without hard links."""
    kind = kind_of(info)
    what = ""
    if kind == FILE:
        with path.open("rb") as file:
            what = hashlib.file_digest(file, "sha256").hexdigest()
    elif kind == SYMLINK:
        what = str(path.readlink())
    elif info.st_rdev:
        what = f"{info.st_rdev:x}"
    return Row(kind, stat.S_IMODE(info.st_mode), info.st_uid, info.st_gid, what)


def state_of(tree: Path, seen: Seen, before: Mapping[str, Known]) -> State:
    """Return the state of a tree; read only paths that changed since ``before``."""
    rows: dict[str, Row] = {}
    names: dict[int, list[str]] = {}
    for path, info in seen.items():
        known = before.get(path)
        if known and known.print == print_of(info):
            rows[path] = known.row._replace(link="")
        else:
            rows[path] = describe(tree / path, info)
        if info.st_nlink > 1 and rows[path].kind == FILE:
            names.setdefault(info.st_ino, []).append(path)
    linked(rows, names.values())
    return {path: Known(print_of(seen[path]), row) for path, row in rows.items()}


def printed(rows: Mapping[str, Row], seen: Seen) -> State:
    """Return the state of a tree with known rows."""
    return {path: Known(print_of(info), rows[path]) for path, info in seen.items()}


def wanted(top: Mapping[str, Placed]) -> dict[str, Row]:
    """Return the rows of a tree of merged layers, in the form of ``state_of``."""
    rows: dict[str, Row] = {}
    names: dict[str, list[str]] = {}
    for path, (row, _) in top.items():
        rows[path] = row._replace(link="")
        if row.link:
            names.setdefault(row.link, []).append(path)
    linked(rows, names.values())
    return rows


def linked(rows: dict[str, Row], groups: Iterable[list[str]]) -> None:
    """Set ``link`` in the rows of files with hard links."""
    for paths in groups:
        if len(paths) > 1:
            for path in paths:
                rows[path] = rows[path]._replace(link=min(paths))


def families(rows: Mapping[str, Row]) -> dict[str, list[str]]:
    """Return the names of each file with hard links."""
    found: dict[str, list[str]] = {}
    for path, row in rows.items():
        if row.link:
            found.setdefault(row.link, []).append(path)
    return found


def set_folder(path: Path, row: Row) -> None:
    """Create a folder if it is missing, and set its owner and mode."""
    assert row.kind == FOLDER
    path.mkdir(exist_ok=True)
    os.chown(path, row.uid, row.gid)
    path.chmod(row.mode)


def read_state(path: Path) -> State:
    """Read a state; return an empty one if it is missing or damaged."""
    try:
        data = json.loads(gzip.decompress(path.read_bytes()))
        return {name: Known(print_, Row(*row)) for name, (print_, row) in data.items()}
    except (OSError, EOFError, zlib.error, ValueError, TypeError):
        return {}


def write_state(path: Path, state: State) -> None:
    """Write a state, compressed to a quarter."""
    path.write_bytes(gzip.compress(json.dumps(state).encode(), 1, mtime=0))
