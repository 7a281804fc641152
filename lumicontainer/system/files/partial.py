"""Write a large result next to its place, under a name that nobody takes for complete."""

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lumicontainer.errors import HostError, InputError, Problem
from lumicontainer.system import flock
from lumicontainer.system.files import trust
from lumicontainer.system.files.regular import kind

LOCK = ".lumicontainer.lock"


def require_folder_of(output: Path, thing: str) -> None:
    """Raise ``InputError`` if the folder of a result cannot be written."""
    if not output.parent.is_dir():
        what = f"the {thing}'s folder does not exist"
        raise InputError(Problem(what, str(output.parent), hint="create it"))
    if not os.access(output.parent, os.W_OK | os.X_OK):
        what = f"cannot write to the {thing}'s folder"
        raise InputError(Problem(what, str(output.parent), hint="name another --output"))


@contextmanager
def partial_file(output: Path, owner: str = "") -> Iterator[Path]:
    """Yield a locked temporary file for a result, and remove it if it is still there at the end.

    The lock lets others remove only the files of killed processes. ``partial_files`` lists the
    files of an ``owner``.
    """
    descriptor, path = _create(output, owner)
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


@dataclass
class Resumable:
    """Hold a temporary file that another call may complete if it is to ``stay``."""

    file: int
    path: Path
    stay: bool = False


@contextmanager
def resumable_file(output: Path, owner: str) -> Iterator[Resumable]:
    """Yield a locked temporary file like ``partial_file``, or one that an ``owner`` left before.

    What is in it is not known to be right.
    """
    descriptor, path = _adopt(output, owner) or _create(output, owner)
    result = Resumable(descriptor, path)
    try:
        yield result
    finally:
        if not result.stay:
            path.unlink(missing_ok=True)
        os.close(descriptor)


def _create(output: Path, owner: str) -> tuple[int, Path]:
    prefix = _prefix(output, owner)
    while True:
        descriptor, name = tempfile.mkstemp(prefix=prefix, dir=output.parent)
        try:
            flock.lock_file(descriptor, Path(name), fcntl.LOCK_EX, flock.RESULTS)
        except HostError:
            Path(name).unlink()
            os.close(descriptor)
            raise
        # Another process may have removed it before it was locked.
        if flock.is_at(descriptor, Path(name)):
            return descriptor, Path(name)
        os.close(descriptor)


def _adopt(output: Path, owner: str) -> tuple[int, Path] | None:
    """Lock a file that an ``owner`` left, and return it; None if there is nothing to lock."""
    for path in partial_files(output, owner):
        with contextlib.suppress(OSError, HostError):
            descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
            info = os.fstat(descriptor)
            own = info.st_uid == os.geteuid() and info.st_nlink == 1 and not kind(info.st_mode)
            locked = own and flock.lock_file(descriptor, path, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if locked and flock.is_at(descriptor, path):
                return descriptor, path
            os.close(descriptor)
    return None


@contextmanager
def hold_folder(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, for results of several files that belong together.

    Meanwhile it has a file for that: on NFS and Lustre, a lock of a folder excludes no other node.
    Where strangers may write too, each user has a file, because they could hold one for ever.
    """
    own = f".{os.geteuid()}" if trust.is_open_to(folder) else ""
    with flock.hold(folder / f"{LOCK}{own}", flock.RESULTS, own=bool(own)):
        yield


def partial_files(output: Path, owner: str = "") -> list[Path]:
    """Return the temporary files for a result, or only an owner's."""
    prefix = _prefix(output, owner)
    return [path for path in output.parent.iterdir() if path.name.startswith(prefix)]


def _prefix(output: Path, owner: str) -> str:
    return f".{output.name}.partial-{owner}-" if owner else f".{output.name}.partial-"


def log_of(partial: Path) -> Path:
    """Return the log that ``step/download.sh`` writes while it downloads a file."""
    return partial.with_name(f"{partial.name}.log")


def remove_leftovers(output: Path) -> None:
    """Remove the partial files of killed processes, and their logs."""
    partial = partial_files(output)
    for path in set(partial) - {*map(log_of, partial)}:
        # A link may lead to a file of the user.
        with contextlib.suppress(OSError, HostError):
            descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                if flock.lock_file(descriptor, path, fcntl.LOCK_EX | fcntl.LOCK_NB):
                    log_of(path).unlink(missing_ok=True)
                    path.unlink()
            finally:
                os.close(descriptor)
