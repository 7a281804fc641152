"""Work in a tree as an ordinary user: its owners and some modes are in its state alone."""

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from lumicontainer.build.tree.index import FOLDER, GONE, SYMLINK, Index, find_paths
from lumicontainer.system import process

ORDINARY = os.geteuid() != 0
"""Whether this process is an ordinary user; in a user namespace it is root."""
_CLOSED = (
    *("-type", "d", "!", "-perm", "-u=rwx"),
    *("-o", "-type", "f", "!", "-perm", "-u=r"),
)
_MODE = ("-printf", r"%P\0%m\0")


@contextmanager
def opened(tree: Path) -> Iterator[dict[str, int]]:
    """Open files and folders that their owner cannot read; yield their modes, and restore them."""
    if not ORDINARY:
        yield {}
        return
    opening = ("-exec", "chmod", "u+rwx", "{}", ";")
    found = find_paths(tree, "(", *_CLOSED, ")", *_MODE, *opening)
    modes = {path: int(mode, 8) for path, mode in found.items()}
    try:
        yield modes
    finally:
        # A folder may close those below it, so it comes after them.
        for path in sorted(modes, reverse=True):
            if not (tree / path).is_symlink() and (tree / path).exists():
                (tree / path).chmod(modes[path])


def unsquash(tree: Path, layer: Path, index: Index, *options: str) -> None:
    """Unpack a layer over a tree; removed paths become whiteouts only for root."""
    words = ["-force", "-quiet", "-no-progress", "-no-xattrs", "-dest", str(tree), *options]
    gone = [path for path, row in index.items() if row.kind == GONE]
    if not ORDINARY or not gone or options:
        process.capture(["unsquashfs", *words, str(layer)])
        return
    with tempfile.NamedTemporaryFile() as listed:
        listed.write(os.fsencode("".join(f"{path}\n" for path in gone)))
        listed.flush()
        process.capture(
            ["unsquashfs", *words, "-no-wildcards", "-exclude-file", listed.name, str(layer)]
        )


def set_modes(tree: Path, rows: Index) -> None:
    """Set the modes that unsquashfs sets only for root, and those of closed folders."""
    for path in sorted(rows, reverse=True) if ORDINARY else ():
        row = rows[path]
        closed = row.kind == FOLDER and row.mode & 0o700 != 0o700
        if row.kind not in (SYMLINK, GONE) and (row.mode & 0o6000 or closed):
            (tree / path).chmod(row.mode)


@contextmanager
def pack_options(tree: Path, rows: Index, modes: Mapping[str, int]) -> Iterator[Sequence[str]]:
    """Yield the options of mksquashfs that give a tree its owners and whiteouts.

    A path without a row belongs to root. ``modes`` are those of paths with another mode.
    """
    if not ORDINARY:
        yield ()
        return
    with tempfile.NamedTemporaryFile(suffix=".pseudo") as file:
        file.write(os.fsencode("".join(_definitions(tree, rows, modes))))
        file.flush()
        yield ("-root-uid", "0", "-root-gid", "0", "-pf", file.name)


def _definitions(tree: Path, rows: Index, modes: Mapping[str, int]) -> Iterable[str]:
    for path, mode in find_paths(tree, *_MODE).items():
        row = rows.get(path)
        owner = f"{row.uid} {row.gid}" if row else "0 0"
        yield f"{_quoted(path)} m {modes.get(path, int(mode, 8)):o} {owner}\n"
    for path in (path for path, row in rows.items() if row.kind == GONE):
        yield f"{_quoted(path)} c 0 0 0 0 0\n"


def _quoted(path: str) -> str:
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'
