"""Record the state of an unpacked tree, and detect changed paths."""

import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from lumicontainer.errors import HostError, Problem
from lumicontainer.sandbox.tree.index import (
    FILE,
    FOLDER,
    SYMLINK,
    Row,
    find_paths,
    path_kind,
    set_links,
)

STATE = "state"

Prints = dict[str, str]
"""For each path of a tree a text that changes with it: only the kernel sets ctime."""

# A folder's ctime changes with its entries, which have their own prints.
_FOLDER_PRINT = ["-type", "d", "-printf", r"%P\0%i:%m:%U:%G\0"]
_PRINT = ["-printf", r"%P\0%i:%C@:%s:%n\0"]
_ONE_NAME = ":1"
"""The end of a print of a file without hard links."""


Owners = dict[int, tuple[int, int]]
"""User and group by inode."""


class TreeState(NamedTuple):
    """Hold the rows of a tree, and the prints of its paths at that time."""

    prints: Prints
    rows: dict[str, Row]


def print_of(info: os.stat_result) -> str:
    """Return the print of one path."""
    if stat.S_ISDIR(info.st_mode):
        return f"{info.st_ino}:{stat.S_IMODE(info.st_mode):o}:{info.st_uid}:{info.st_gid}"
    seconds, rest = divmod(info.st_ctime_ns, 10**9)
    return f"{info.st_ino}:{seconds}.{rest:09}0:{info.st_size}:{info.st_nlink}"


def scan(tree: Path) -> Prints:
    """Return the print of every path in a tree, parents first."""
    return find_paths(tree, *_FOLDER_PRINT, "-o", *_PRINT)


@contextmanager
def scanning(tree: Path) -> Iterator[Callable[[], Prints]]:
    """Scan a tree in parallel with other work; yield a function that returns the prints."""
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(scan, tree).result


def require_folders(tree: Path, rows: Mapping[str, Row]) -> None:
    """Raise ``HostError`` if a folder of a tree was removed since its rows were read.

    Another program is then removing the tree, and its snapshot would lack files.
    """
    for path, row in rows.items():
        if row.kind == FOLDER and not os.path.lexists(f"{tree}/{path}"):
            what, hint = "files of the build were removed while it read them", "repeat the command"
            raise HostError(Problem(what, f"{tree}/{path}", hint=hint))


def describe(path: Path) -> Row:
    """Return the row of a path, without hard links."""
    info = path.lstat()
    kind = path_kind(info)
    what = ""
    if kind == FILE:
        with path.open("rb") as file:
            what = hashlib.file_digest(file, "sha256").hexdigest()
    elif kind == SYMLINK:
        what = str(path.readlink())
    elif info.st_rdev:
        what = f"{info.st_rdev:x}"
    return Row(kind, stat.S_IMODE(info.st_mode), info.st_uid, info.st_gid, what)


def tree_state(
    tree: Path, prints: Prints, before: TreeState, owners: Owners | None = None
) -> TreeState:
    """Return the state of a tree; read only paths that changed since ``before``.

    With ``owners`` the tree is an ordinary user's, and they are the recorded ones.
    """
    rows: dict[str, Row] = {}
    names: dict[str, list[str]] = {}
    for path, each in prints.items():
        known = before.prints.get(path) == each
        row = before.rows[path] if known else describe(tree / path)
        if owners is not None:
            uid, gid = _owner(path, each, rows, before, owners)
            row = row._replace(uid=uid, gid=gid)
        rows[path] = row
        if not each.endswith(_ONE_NAME) and rows[path].kind == FILE:
            names.setdefault(each, []).append(path)
    set_links(rows, names.values())
    return TreeState(prints, rows)


def _owner(
    path: str, each: str, rows: Mapping[str, Row], before: TreeState, owners: Owners
) -> tuple[int, int]:
    """Return the owner of a path with a print; its folder is in ``rows`` already."""
    number = each.partition(":")[0]
    if any(owner := owners.get(int(number), (0, 0))):
        return owner
    if old := before.rows.get(path):
        # A program that replaces a file copies its owner, which PRoot shows as root.
        replaced = before.prints[path].partition(":")[0] != number
        return (old.uid, old.gid) if replaced else (0, 0)
    folder = rows.get(path.rpartition("/")[0])
    inherits = folder and folder.mode & stat.S_ISGID and int(number) not in owners
    return (0, folder.gid) if folder and inherits else (0, 0)


def set_folder(path: Path, row: Row) -> None:
    """Create a folder if it is missing, and set its owner and mode."""
    assert row.kind == FOLDER
    path.mkdir(exist_ok=True)
    if os.geteuid():
        path.chmod(row.mode | stat.S_IRWXU)  # Else it could not be filled.
        return
    os.chown(path, row.uid, row.gid)
    path.chmod(row.mode)


def read_state(path: Path) -> TreeState:
    """Read a state; return an empty one if it is missing or damaged."""
    try:
        fields = os.fsdecode(path.read_bytes()).split("\0")[:-1]
        number = 2 + len(Row._fields)
        columns = (fields[at::number] for at in range(number))
        paths, prints, kinds, modes, users, groups, whats, links = columns
        numbers = (map(int, each) for each in (modes, users, groups))
        rows = map(Row, kinds, *numbers, whats, links)
        return TreeState(dict(zip(paths, prints, strict=True)), dict(zip(paths, rows, strict=True)))
    except (OSError, ValueError):
        return TreeState({}, {})


def write_state(path: Path, state: TreeState) -> None:
    """Write a state: fields that end with NUL, because JSON takes three times as long."""
    lines = (
        f"{name}\0{state.prints[name]}\0{kind}\0{mode}\0{uid}\0{gid}\0{what}\0{link}\0"
        for name, (kind, mode, uid, gid, what, link) in state.rows.items()
    )
    path.write_bytes(os.fsencode("".join(lines)))
