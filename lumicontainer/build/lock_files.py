"""Open and write the files of locks."""

from __future__ import annotations

from pathlib import Path

from lumicontainer.core.lock.lock import Lock
from lumicontainer.core.lock.lockfile import read_lock, text_of
from lumicontainer.errors import Problems
from lumicontainer.system.files.recipe_folder import display, read_text
from lumicontainer.system.files.write import write_whole


def open_lock(root: Path, name: str) -> Lock:
    """Read the lock ``name`` below ``root``; raise ``InputError`` where it is invalid."""
    problems = Problems()
    lock = read_lock(read_text(root, name), display(root / name), problems)
    problems.raise_if_any()
    assert lock is not None
    return lock


def write_lock(lock: Lock, path: Path) -> None:
    """Write a lock, whole or not at all.

    Raises ``InputError`` where it could not be read again.
    """
    text, problems = text_of(lock), Problems()
    read_lock(text, display(path), problems)
    problems.raise_if_any()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, text.encode())
