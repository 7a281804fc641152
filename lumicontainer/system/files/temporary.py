"""Folders for temporary files of the user alone, each with a lock while it is used."""

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from lumicontainer.errors import HostError, LumicontainerError, Problem
from lumicontainer.inside.node.private_folder import is_private
from lumicontainer.system import flock, process
from lumicontainer.system.files import trust
from lumicontainer.system.interruption import postpone_signals
from lumicontainer.system.os_errors import refused

_REMOVE = """\
find "$1" -type d ! -perm -u=rwx -exec chmod u+rwx {} ';' 2>/dev/null
exec rm -rf --one-file-system -- "$1"
"""


def temporary_folder() -> Path:
    """Return the folder for temporary files; raise ``HostError`` if others could replace it."""
    named = os.environ.get("LUMICONTAINER_TMPDIR") or os.environ.get("TMPDIR") or "/var/tmp"
    if problem := trust.doubt(Path(named), "the temporary folder", "LUMICONTAINER_TMPDIR"):
        raise HostError(problem)
    return Path(named)


def temporary_root() -> Path:
    """Return the user's folder for builds; raise ``HostError`` if it is not private."""
    root = temporary_folder() / f"lumicontainer-{os.getuid()}"
    with creating(root):
        root.mkdir(mode=0o700, exist_ok=True)
        private = is_private(root.lstat())
        if private:
            _keep_own_group(root)
    if not private:
        why = "it is not a folder of yours with mode 0700"
        hint = "remove it, or name another place with LUMICONTAINER_TMPDIR"
        raise HostError(Problem("the folder for builds is not private", str(root), why, hint))
    return root


def _keep_own_group(root: Path) -> None:
    """Give new files the user's own group; a user namespace has no group that a folder hands on."""
    status = root.stat()
    if status.st_mode & stat.S_ISGID or status.st_gid != os.getegid():
        os.chown(root, -1, os.getegid())
        root.chmod(0o700)


def require_programs(root: Path, as_root: Sequence[str] = ()) -> None:
    """Raise ``HostError`` if no program can be started from a folder.

    With ``as_root``, the start of a command that runs as root of a user namespace, require that
    files there can be given to another user.
    """
    give = 'chown 1:1 "$1" && ' if as_root else ""
    with plain_folder("probe+", root) as folder:
        program = folder / "program"
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
        command = [*as_root, "sh", "-c", f'{give}"$1"', "sh", str(program)]
        try:
            process.capture(command)
        except LumicontainerError as error:
            why = error.problems[0].why or error.problems[0].what
            cannot = "give files to another user" if "chown: " in why else "start programs"
            hint = "name another folder: export LUMICONTAINER_TMPDIR=/var/tmp"
            what = f"cannot {cannot} in the folder for builds"
            raise HostError(Problem(what, str(root), why, hint)) from error


@contextmanager
def plain_folder(name: str, root: Path | None = None) -> Iterator[Path]:
    """Create a private folder for temporary files, and remove the folders of killed processes.

    It needs no namespace. ``name`` is not the name of a recipe. ``root`` is a private folder; the
    default is the user's folder for builds.
    """
    root = root or temporary_root()
    with creating(root), guard(root):
        folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=root))
        lock = flock.exclusive(folder / "lock")
        stale = _rename_stale(root, name)
    assert lock is not None
    try:
        for old in stale:
            _remove(old)
        with keep_from_cleaners(folder):
            yield folder
    finally:
        with postpone_signals():
            _remove(folder)
            os.close(lock)


def remove_stale(name: str) -> None:
    """Remove the folders with a name that killed processes left in the user's folder for builds."""
    root = temporary_root()
    with creating(root), guard(root):
        stale = _rename_stale(root, name)
    for old in stale:
        _remove(old)


def _rename_stale(root: Path, name: str) -> list[Path]:
    return [old for old, _ in rename_unused(root, lambda each: recipe_of(each) == name)]


def _remove(folder: Path) -> None:
    with contextlib.suppress(RecursionError):  # Folders may be in each other without end.
        shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        remove_own(folder)


def remove_own(folder: Path) -> str:
    """Remove a folder whose files are the user's, and return why some are left, if so.

    Folders in it may be closed: a container leaves such ones, and so do caches of modules.
    """
    return process.in_new_session(["sh", "-c", _REMOVE, "sh", str(folder)]).stderr


@contextmanager
def remove_meanwhile(folder: Path) -> Iterator[None]:
    """Remove a folder of the user's own files while the block runs.

    The kernel still writes new files to the disk, and lets nobody remove them before.
    """
    with ThreadPoolExecutor(1) as thread:
        thread.submit(remove_own, folder)
        yield


@contextmanager
def keep_from_cleaners(folder: Path) -> Iterator[None]:
    """Let systemd-tmpfiles pass over a folder, whose old files it would remove (tmpfiles.d(5))."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):  # The file system may have no locks of folders.
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def creating(root: Path) -> Iterator[None]:
    """Raise what the system refuses meanwhile as an error with a hint."""
    try:
        yield
    except OSError as error:
        other = "name another place with LUMICONTAINER_TMPDIR"
        raise refused(error, "cannot create the folder of a build", str(root), other) from error


def recipe_of(folder: Path) -> str:
    """Return the recipe of a build's folder, with the runtime if it is not the usual one."""
    return folder.name.lstrip(".").rpartition("-")[0]


@contextmanager
def guard(root: Path) -> Iterator[None]:
    """Let no other process create or rename a folder meanwhile."""
    path = root / ".guard"
    with path.open("a") as file:
        flock.lock_file(file.fileno(), path, fcntl.LOCK_EX)
        yield


def rename_unused(root: Path, selects: Callable[[Path], bool]) -> Iterator[tuple[Path, bool]]:
    """Rename wanted folders without a running build; yield each, and whether it was renamed before.

    The caller holds the guard. A renamed folder starts with a dot.
    """
    for folder in root.iterdir():
        # Another build may remove a renamed folder at any time.
        with contextlib.suppress(FileNotFoundError):
            if not folder.is_dir() or not selects(folder):
                continue
            if folder.name.startswith("."):
                yield folder, True
            elif (lock := flock.exclusive(folder / "lock")) is not None:
                renamed = folder.rename(folder.with_name(f".{folder.name}"))
                os.close(lock)
                yield renamed, False
