"""Describe the changes of a layer by an index with one row a path, to merge and compare layers.

A removed path is a character device 0/0 in the squashfs: a whiteout, which the kernel's overlay and
fuse-overlayfs read.
"""

import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from lumicontainer.errors import HostError, Problem
from lumicontainer.system import budget, process

FILE, FOLDER, SYMLINK, GONE = "file", "folder", "symlink", "gone"
FIFO, SOCKET, DEVICE = "fifo", "socket", "device"


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


_KINDS = {stat.S_IFREG: FILE, stat.S_IFDIR: FOLDER, stat.S_IFLNK: SYMLINK}
_KINDS |= {stat.S_IFIFO: FIFO, stat.S_IFSOCK: SOCKET}


def path_kind(info: os.stat_result) -> str:
    """Return the kind of a path from its stat result."""
    return _KINDS.get(stat.S_IFMT(info.st_mode), DEVICE)


Index = Mapping[str, Row]
"""Rows by path, without a leading slash and without the root."""


class Merged(NamedTuple):
    """Hold the rows of merged layers, and the number of the layer that each path is from."""

    rows: dict[str, Row]
    layer_of: dict[str, int]


def merge(indexes: Iterable[Index]) -> Merged:
    """Merge layers, the lowest first. Equal links in two layers are two files."""
    rows: dict[str, Row] = {}
    layer_of: dict[str, int] = {}
    for number, index in enumerate(indexes):
        both = index.keys() & rows.keys()
        if gone := tuple(f"{p}/" for p in both if rows[p].kind == FOLDER != index[p].kind):
            rows = {path: row for path, row in rows.items() if not path.startswith(gone)}
        rows |= index
        layer_of |= dict.fromkeys(index, number)
        for path in [path for path, row in index.items() if row.kind == GONE]:
            del rows[path]
    names: dict[tuple[int, str], list[str]] = {}
    for path, row in rows.items():
        if row.link:
            names.setdefault((layer_of[path], row.link), []).append(path)
    set_links(rows, names.values())
    return Merged(rows, layer_of)


def set_links(rows: dict[str, Row], groups: Iterable[list[str]]) -> None:
    """Set ``link`` in the rows of paths; each group has the names of one file."""
    for paths in groups:
        first = min(paths) if len(paths) > 1 else ""
        rows.update({path: rows[path]._replace(link=first) for path in paths})


def with_links(paths: set[str], rows: Index) -> set[str]:
    """Return paths with all other names of their files."""
    links = {row.link for path in paths if (row := rows.get(path)) and row.link}
    return paths | {path for path, row in rows.items() if row.link in links}


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


def find_paths(tree: Path, *words: str) -> dict[str, str]:
    """Return the text that ``find`` prints for each path below a tree; NUL ends both."""
    printed = process.capture_bytes(
        ["find", str(tree), "-mindepth", "1", *words], limits=budget.FILES
    )
    fields = os.fsdecode(printed).split("\0")[:-1]
    return dict(zip(fields[::2], fields[1::2], strict=True))


def read_index(path: Path) -> dict[str, Row]:
    """Read the index of a layer; raise ``HostError`` if it is damaged."""
    try:
        rows = {name: Row(*row) for name, row in json.loads(path.read_bytes()).items()}
        if all(_is_inside(name) and _is_valid(row) for name, row in rows.items()):
            return rows
        why = "a row has a value of another type, or a path that leaves the layer"
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        why = str(error)
    hint = f"remove the layer from the cache, and build it again: rm -r {path.parent}"
    raise HostError(Problem("the index of a layer is damaged", str(path), why, hint))


def _is_inside(name: str) -> bool:
    return (
        "\0" not in name
        and (".." not in name or ".." not in name.split("/"))
        and not name.startswith("/")
    )


def _is_valid(row: Row) -> bool:
    return tuple(map(type, row)) == (str, int, int, int, str, str)


def write_index(path: Path, index: Index) -> None:
    """Write the index of a layer; equal indexes give equal bytes."""
    lines = (f"{json.dumps(name)}:{json.dumps(row)}" for name, row in sorted(index.items()))
    path.write_text("{" + ",\n".join(lines) + "}\n")
