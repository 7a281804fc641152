"""Read and write the files of locks."""

from pathlib import Path

from lumicontainer.core.lock import Lock, read_lock, text_of
from lumicontainer.errors import Problems
from lumicontainer.system.files.recipe_folder import display, read_text
from lumicontainer.system.files.write import write_whole


def open_lock(root: Path, name: str) -> Lock:
    """Read the lock ``name`` below ``root``; raise ``InputError`` if it is invalid."""
    return _read(read_text(root, name), root / name)


def write_lock(lock: Lock, path: Path) -> None:
    """Write a lock in one step; raise ``InputError`` if it could not be read back."""
    text = text_of(lock)
    _read(text, path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, text.encode())


def _read(text: str, path: Path) -> Lock:
    problems = Problems()
    lock = read_lock(text, display(path), problems)
    problems.raise_if_any()
    assert lock is not None
    return lock
