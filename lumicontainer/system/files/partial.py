"""Write a large result beside its place, where nobody takes it for whole."""

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lumicontainer.errors import HostError, InputError, Problem
from lumicontainer.system import flock


def require_folder_of(output: Path, thing: str) -> None:
    """Raise ``InputError`` if the folder of a result cannot be written."""
    if not output.parent.is_dir():
        what = f"the {thing}'s folder does not exist"
        raise InputError(Problem(what, str(output.parent), hint="create it"))
    if not os.access(output.parent, os.W_OK | os.X_OK):
        what = f"cannot write to the {thing}'s folder"
        raise InputError(Problem(what, str(output.parent), hint="name another --output"))


@contextmanager
def partial_file(output: Path) -> Iterator[Path]:
    """Yield a locked temporary file for a result, and remove it if it is still there at the end.

    The lock lets others remove only the files of killed processes.
    """
    while True:
        descriptor, name = tempfile.mkstemp(prefix=f".{output.name}.partial-", dir=output.parent)
        try:
            _lock(descriptor, output.parent)
        except HostError:
            Path(name).unlink()
            os.close(descriptor)
            raise
        # Another process may have removed it before it was locked.
        if os.fstat(descriptor).st_nlink:
            break
        os.close(descriptor)
    try:
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)
        os.close(descriptor)


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, for results of several files that belong together."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _lock(descriptor, folder)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, folder: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError as error:
        raise flock.refusal(error, "results", folder, "name another --output") from error


def remove_leftovers(output: Path) -> None:
    """Remove the partial files of killed processes."""
    for path in output.parent.iterdir():
        if path.name.startswith(f".{output.name}.partial-"):
            with contextlib.suppress(OSError), path.open("r+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
