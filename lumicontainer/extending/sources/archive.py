"""Pack a folder into an archive with the same bytes for the same files, from which uv builds."""

import gzip
import hashlib
import os
import posixpath
import stat
import tarfile
from collections.abc import Collection, Iterator
from pathlib import Path

from lumicontainer.constants import EPOCH
from lumicontainer.errors import InputError, Problem
from lumicontainer.system import units
from lumicontainer.system.files.regular import kind, open_no_link
from lumicontainer.system.os_errors import refused

MOST = 1 << 30
"""Bytes of all files: a source with more has data in it, which no wheel should have."""
_MOST_FILES = 100_000
_MOST_LEVELS = 200
"""Folders in each other."""


def pack_folder(folder: Path, target: Path, top: str, skipped: Collection[str] = ()) -> str:
    """Write an archive with one folder ``top``; return its sha256.

    Names that are ``skipped`` are left out at any depth. Raises ``InputError`` for what is not a
    file, for a link that leads out of the folder, and for too much.
    """
    with (
        target.open("wb") as raw,
        gzip.GzipFile("", "wb", compresslevel=1, fileobj=raw, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        total = 0
        for number, name in enumerate(_paths(folder, "", skipped)):
            total += _add(archive, folder, name, top, MOST - total)
            if number == _MOST_FILES:
                raise _refuse_size(folder)
    with target.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _paths(folder: Path, prefix: str, skipped: Collection[str]) -> Iterator[str]:
    """Yield the paths below a folder that are not folders, in a fixed order."""
    if prefix.count("/") > _MOST_LEVELS:
        why = f"it has more than {_MOST_LEVELS} folders in each other"
        raise _refuse(folder, why, "name a folder that has only the code")
    try:
        with os.scandir(folder / prefix) as entries:
            ordered = sorted(entries, key=lambda each: each.name)
    except OSError as error:
        raise refused(error, "cannot read the source", str(folder / prefix)) from error
    for each in ordered:
        name = f"{prefix}{each.name}"
        if each.name in skipped:
            continue
        if each.is_dir(follow_symlinks=False):
            yield from _paths(folder, f"{name}/", skipped)
        else:
            yield name


def _add(archive: tarfile.TarFile, folder: Path, name: str, top: str, room: int) -> int:
    """Add a file of up to ``room`` bytes or a link to an archive; return its size."""
    entry = tarfile.TarInfo(f"{top}/{name}")
    entry.mtime = EPOCH
    path = folder / name
    try:
        if path.is_symlink():
            entry.type, entry.linkname = tarfile.SYMTYPE, str(path.readlink())
            if _leads_out(name, entry.linkname):
                why = f"'{name}' is a link that leads out of it, to {entry.linkname}"
                raise _refuse(folder, why, "replace the link by what it names")
            archive.addfile(entry)
            return 0
        if odd := kind(path.stat().st_mode):
            raise _refuse(folder, f"'{name}' is {odd}", "remove it, or name another folder")
        with open_no_link(path) as file:
            info = os.fstat(file.fileno())
            entry.size = info.st_size
            if entry.size > room:
                raise _refuse_size(folder)
            entry.mode = 0o755 if info.st_mode & stat.S_IXUSR else 0o644
            archive.addfile(entry, file)
        return entry.size
    except OSError as error:
        raise refused(error, "cannot read the source", str(path)) from error


def _leads_out(name: str, target: str) -> bool:
    reached = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
    return target.startswith("/") or reached == ".." or reached.startswith("../")


def _refuse_size(folder: Path) -> InputError:
    limit = f"{units.size(MOST)} or {_MOST_FILES} files"
    return _refuse(folder, f"it has more than {limit}", "name a folder that has only the code")


def _refuse(folder: Path, why: str, hint: str) -> InputError:
    return InputError(Problem("cannot pack the source", str(folder), why, hint))
