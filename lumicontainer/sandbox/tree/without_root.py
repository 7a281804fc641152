"""Work in a tree as an ordinary user: its owners and some modes are in its state alone."""

import os
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from lumicontainer.errors import HostError, Problem
from lumicontainer.sandbox.tree.index import FOLDER, GONE, SYMLINK, Index, Row, find_paths
from lumicontainer.sandbox.tree.snapshot import Prints, print_of
from lumicontainer.system import budget, process

ORDINARY = os.geteuid() != 0
"""Whether this process is an ordinary user; in a user namespace it is root."""
_CLOSED = (
    *("-type", "d", "!", "-perm", "-u=rwx"),
    *("-o", "-type", "f", "!", "-perm", "-u=r"),
)
_MODE = ("-printf", r"%P\0%m\0")


def open_closed(tree: Path) -> dict[str, int]:
    """Open the files and folders of a tree that their owner cannot read; return their modes."""
    if not ORDINARY:
        return {}
    opening = ("-exec", "chmod", "u+rwx", "{}", ";")
    paths = find_paths(tree, "(", *_CLOSED, ")", *_MODE, *opening)
    return {path: int(mode, 8) for path, mode in paths.items()}


def close(tree: Path, modes: Mapping[str, int]) -> Prints:
    """Set the modes of paths that exist; return their new prints."""
    prints: Prints = {}
    # A folder may close those below it, so it comes after them.
    for path in sorted(modes, reverse=True):
        target = tree / path
        if target.exists() and not target.is_symlink():
            target.chmod(modes[path])
            prints[path] = print_of(target.lstat())
    return prints


def unsquash(
    tree: Path, layer: Path, index: Index, *options: str, without_gone: bool = False
) -> None:
    """Unpack a layer over a tree; folders that are closed become open for an ordinary user.

    Removed paths become whiteouts, unless it is unpacked ``without_gone``.
    """
    words = ["-force", "-quiet", "-no-progress", "-no-xattrs", "-dest", str(tree), *options]
    gone = [path for path, row in index.items() if without_gone and row.kind == GONE]
    with tempfile.NamedTemporaryFile() as listed:
        if gone:
            listed.write(os.fsencode("".join(f"{path}\n" for path in gone)))
            listed.flush()
            words += ["-no-wildcards", "-exclude-file", listed.name]
        process.capture(["unsquashfs", *words, str(layer)], limits=budget.FILES)
    for path in (path for path, row in index.items() if ORDINARY and _is_closed(row)):
        (tree / path).chmod(index[path].mode | stat.S_IRWXU)


def _is_closed(row: Row) -> bool:
    return row.kind == FOLDER and row.mode & stat.S_IRWXU != stat.S_IRWXU


def modes_to_set(rows: Index, opened: Iterable[str]) -> dict[str, int]:
    """Return the modes that unsquashfs does not set, and the modes of opened folders.

    It sets setuid and setgid for root alone, and cannot fill a closed folder.
    """
    if not ORDINARY:
        return {}
    paths, special = set(opened), stat.S_ISUID | stat.S_ISGID
    return {
        path: row.mode
        for path, row in rows.items()
        if row.kind not in (SYMLINK, GONE)
        and (path in paths or row.mode & special or _is_closed(row))
    }


@contextmanager
def pack_options(tree: Path, rows: Index, modes: Mapping[str, int]) -> Iterator[Sequence[str]]:
    """Yield the options of mksquashfs that give a tree its owners and whiteouts.

    A path without a row belongs to root. ``modes`` are the paths with another mode.
    """
    if not ORDINARY:
        yield ()
        return
    with pseudo_options(tree, rows, modes) as options:
        yield options


@contextmanager
def pseudo_options(tree: Path, rows: Index, modes: Mapping[str, int]) -> Iterator[Sequence[str]]:
    """Yield the same options, whoever has this process."""
    with tempfile.NamedTemporaryFile(suffix=".pseudo") as file:
        file.write(os.fsencode("".join(_definitions(tree, rows, modes))))
        file.flush()
        yield ("-root-uid", "0", "-root-gid", "0", "-pf", file.name)


def _definitions(tree: Path, rows: Index, modes: Mapping[str, int]) -> Iterable[str]:
    for path, mode in find_paths(tree, *_MODE).items():
        row = rows.get(path)
        owner = f"{row.uid} {row.gid}" if row else "0 0"
        yield f"{_quote(path)} m {modes.get(path, int(mode, 8)):o} {owner}\n"
    for path in (path for path, row in rows.items() if row.kind == GONE):
        yield f"{_quote(path)} c 0 0 0 0 0\n"


def _quote(path: str) -> str:
    """Return a path for a line of definitions; raise ``HostError`` if it takes two lines.

    The second one could name a command that mksquashfs runs on the host.
    """
    if "\n" in path:
        what, why = "cannot pack a file without root", "its name holds a newline"
        raise HostError(Problem(what, repr(path), why, "build with --runtime namespaces or docker"))
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'
