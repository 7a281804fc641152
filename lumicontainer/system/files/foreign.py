"""Take files from a folder that a container could write: the one way out of a container.

Every path there may be a link to a file of the user, a pipe that blocks, or a file without end.
When the container has ended, the folder is moved out of the sight of containers, and searched.
No link is followed, and only regular files are opened.
"""

import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

from lumicontainer.errors import Problem, StepError
from lumicontainer.system.files.regular import kind, open_no_link

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_DEEPEST = 100
_SHOWN = 5
TOP = "."
"""The path of the folder itself."""
MOST_FILES = 1_000_000
"""Pip's largest packages have 20,000."""

Sizes = Mapping[str, int]
"""The size of each file, by its path in the folder."""


class OddFilesError(StepError):
    """A container left more than files and folders; ``paths`` are relative to the folder."""

    def __init__(self, odd: Mapping[str, str]) -> None:
        self.paths = list(odd)
        named = [f"{path!a} is {what}" for path, what in list(odd.items())[:_SHOWN]]
        more = f", and {len(odd) - _SHOWN} more" if len(odd) > _SHOWN else ""
        what, why = "a container left other things than files", f"{', '.join(named)}{more}"
        super().__init__(Problem(what, why=why, hint="leave the package out that it worked on"))


def take(mounted: Path, name: str, place: Path) -> Sizes:
    """Move a folder out of the reach of an ended container; return its files.

    ``mounted`` is the folder that the container could write; ``place`` is in one that was never
    mounted. Raises ``OddFilesError`` if anything is neither a file nor a folder.
    """
    try:
        with _parent(mounted, name) as (folder, last):
            os.rename(last, place, src_dir_fd=folder)
    except OSError as error:
        raise OddFilesError({TOP: error.strerror or str(error)}) from error
    return regular_files(place)


def regular_files(folder: Path) -> Sizes:
    """Return the files below a folder; raise ``OddFilesError`` if it holds anything else."""
    files, odd = {}, {}
    for path, size, what in _look(folder):
        if what:
            odd[path] = what
        else:
            files[path] = size
        if len(files) + len(odd) > MOST_FILES:
            raise OddFilesError({path: f"one of more than {MOST_FILES} files"})
    if odd:
        raise OddFilesError(odd)
    return files


@contextmanager
def open_below(folder: Path, name: str) -> Iterator[BufferedReader]:
    """Open a regular file below a folder; no part of ``name`` may be a link."""
    with _parent(folder, name) as (parent, last), open_no_link(last, parent) as file:
        yield file


@contextmanager
def _parent(folder: Path, name: str) -> Iterator[tuple[int, str]]:
    """Open the folder of a path without following links; yield it with the path's last part."""
    *parents, last = name.split("/")
    opened = os.open(folder, _FOLDER)
    try:
        for each in parents:
            below = os.open(each, _FOLDER, dir_fd=opened)
            os.close(opened)
            opened = below
        yield opened, last
    finally:
        os.close(opened)


def read_below(folder: Path, name: str, most: int) -> bytes:
    """Return a file below a folder; raise ``OddFilesError`` if it has more than ``most`` bytes."""
    try:
        with open_below(folder, name) as file:
            content = file.read(most + 1)
    except OSError as error:
        raise OddFilesError({name: error.strerror or str(error)}) from error
    if len(content) > most:
        raise OddFilesError({name: f"larger than {most} bytes"})
    return content


def names_below(folder: Path, name: str) -> list[str]:
    """Return the names in a folder below another; raise ``OSError`` for a link in its path."""
    with _parent(folder, f"{name}/{TOP}") as (opened, _), os.scandir(opened) as entries:
        return sorted(each.name for each in entries)


def copy_below(folder: Path, name: str, target: Path) -> None:
    """Copy a file below a folder; raise ``OSError`` if it cannot be opened or written."""
    with open_below(folder, name) as source, target.open("xb") as file:
        shutil.copyfileobj(source, file, 1 << 20)


def _look(folder: Path) -> Iterator[tuple[str, int, str]]:
    """Yield each path below a folder except folders: its size, and its kind if it is not a file."""
    try:
        top = os.open(folder, _FOLDER)
    except OSError:
        yield TOP, 0, kind(folder.lstat().st_mode) or "no folder"
        return
    try:
        yield from _entries(top, "", 1)
    finally:
        os.close(top)


def _entries(folder: int, prefix: str, depth: int) -> Iterator[tuple[str, int, str]]:
    with os.scandir(folder) as entries:
        names = sorted(each.name for each in entries)
    for name in names:
        info, path = os.stat(name, dir_fd=folder, follow_symlinks=False), f"{prefix}{name}"
        if not stat.S_ISDIR(info.st_mode):
            what = "a link" if stat.S_ISLNK(info.st_mode) else kind(info.st_mode)
            yield path, info.st_size, what
            continue
        try:
            if depth == _DEEPEST:
                raise OSError(None, f"more than {_DEEPEST} folders deep")
            below = os.open(name, _FOLDER, dir_fd=folder)
        except OSError as error:
            yield path, 0, error.strerror or "a closed folder"
            continue
        try:
            yield from _entries(below, f"{path}/", depth + 1)
        finally:
            os.close(below)
