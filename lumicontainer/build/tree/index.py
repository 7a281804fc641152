"""Describe the changes of a layer by an index with one row a path, to merge and compare layers.

A removed path is a character device 0/0 in the squashfs: a whiteout, which the kernel's overlay and
fuse-overlayfs read.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

FILE, FOLDER, SYMLINK, FIFO, SOCKET, DEVICE = (
    "file",
    "folder",
    "symlink",
    "fifo",
    "socket",
    "device",
)
GONE = "gone"


class Row(NamedTuple):
    """Hold the properties of one path; ``mode`` has only the permission bits."""

    kind: str
    mode: int = 0
    uid: int = 0
    gid: int = 0
    what: str = ""
    """A file's sha256, a symlink's target, a device's numbers."""
    link: str = ""
    """The first name of a file with hard links."""


_KINDS = {stat.S_IFREG: FILE, stat.S_IFDIR: FOLDER, stat.S_IFLNK: SYMLINK, stat.S_IFIFO: FIFO}


def kind_of(info: os.stat_result) -> str:
    """Return the kind of a path from its stat result."""
    if stat.S_ISSOCK(info.st_mode):
        return SOCKET
    return _KINDS.get(stat.S_IFMT(info.st_mode), DEVICE)


Index = Mapping[str, Row]
"""Rows by path, without a leading slash and without the root."""


class Placed(NamedTuple):
    """Hold one path of merged layers, and the number of its layer."""

    row: Row
    layer: int


def merge(indexes: Iterable[Index]) -> dict[str, Placed]:
    """Return the paths of merged layers, the lowest first.

    ``link`` gets the number of the layer as prefix: equal names in two layers are two files.
    """
    merged: dict[str, Placed] = {}
    for number, index in enumerate(indexes):
        removed = [
            f"{path}/"
            for path, row in index.items()
            if row.kind != FOLDER and path in merged and merged[path].row.kind == FOLDER
        ]
        if removed:
            gone = tuple(removed)
            merged = {path: each for path, each in merged.items() if not path.startswith(gone)}
        for path, row in index.items():
            if row.kind == GONE:
                merged.pop(path, None)
            else:
                link = f"{number}:{row.link}" if row.link else ""
                merged[path] = Placed(row._replace(link=link), number)
    return dict(sorted(merged.items()))


def differences(one: Index, other: Index) -> Iterator[tuple[str, str]]:
    """Yield each path that differs between two indexes, with the names of the properties."""
    for path in sorted(one.keys() | other.keys()):
        left, right = one.get(path), other.get(path)
        if left is None or right is None:
            yield path, "only in one"
        elif left != right:
            named = zip(Row._fields, left, right, strict=True)
            names = {"what": "content", "uid": "owner", "gid": "group"}
            yield path, ", ".join(names.get(name, name) for name, a, b in named if a != b)


def read_index(path: Path) -> dict[str, Row]:
    """Read the index of a layer."""
    return {name: Row(*row) for name, row in json.loads(path.read_bytes()).items()}


def write_index(path: Path, index: Index) -> None:
    """Write the index of a layer; equal indexes give equal bytes."""
    lines = (f"{json.dumps(name)}:{json.dumps(row)}" for name, row in sorted(index.items()))
    path.write_text("{" + ",\n".join(lines) + "}\n")
