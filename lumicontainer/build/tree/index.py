"""Describe the changes of a layer by an index with one row a path, to merge and compare layers.

A removed path is a character device 0/0 in the squashfs: a whiteout, which the kernel's overlay and
fuse-overlayfs read.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
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


@dataclass
class Node:
    """Hold one path of the tree of merged layers."""

    row: Row
    children: dict[str, Node] = field(default_factory=dict)
    layer: int = 0
    """The number of the path's layer; the lowest is 0."""

    def find(self, path: str) -> Node | None:
        """Return the node of ``path`` below this one."""
        node: Node | None = self
        for name in path.split("/"):
            node = node.children.get(name) if node else None
        return node

    def walk(self, prefix: str = "") -> Iterator[tuple[str, Node]]:
        """Yield every path below this one with its node, parents first."""
        for name, node in self.children.items():
            path = f"{prefix}{name}"
            yield path, node
            yield from node.walk(f"{path}/")


def merge(indexes: Iterable[Index]) -> Node:
    """Return the tree of merged layers, the lowest first.

    ``link`` gets the number of the layer as prefix: equal names in two layers are two files.
    """
    root = Node(Row(FOLDER, 0o755))
    for number, index in enumerate(indexes):
        for path, row in sorted(index.items()):
            folder, _, name = path.rpartition("/")
            parent = root.find(folder) if folder else root
            assert parent is not None, f"a layer has {path} without its folder"
            if row.kind == GONE:
                parent.children.pop(name, None)
                continue
            placed = row._replace(link=f"{number}:{row.link}") if row.link else row
            before = parent.children.get(name)
            if before and row.kind == FOLDER and before.row.kind == FOLDER:
                before.row, before.layer = placed, number
            else:
                parent.children[name] = Node(placed, layer=number)
    return root


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
