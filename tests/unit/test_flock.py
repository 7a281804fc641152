"""A lock holds as long as its block, on every file system that has locks."""

import errno
import fcntl
import os
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lumicontainer.errors import HostError
from lumicontainer.system import flock
from lumicontainer.system.files import partial, temporary

LOCKING = {
    "LUMICONTAINER_CACHE": lambda folder: flock.exclusive(folder / "x.make"),
    "LUMICONTAINER_TMPDIR": lambda folder: temporary.guard(folder).__enter__(),
    "--output": lambda folder: partial.held(folder).__enter__(),
    "another --output": lambda folder: partial.partial_file(folder / "x.sif").__enter__(),
}
"""What takes locks, by the setting that names another folder."""


@pytest.mark.parametrize("setting", LOCKING)
def test_only_files_are_locked_and_they_are_open_for_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    """On NFS and Lustre the lock of a folder excludes its own node alone."""
    locked, lock = [], fcntl.flock

    def record(held: int, mode: int) -> None:
        writes = fcntl.fcntl(held, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY
        locked.append((stat.S_ISREG(os.fstat(held).st_mode), writes))
        lock(held, mode)

    monkeypatch.setattr(fcntl, "flock", record)
    LOCKING[setting](tmp_path)
    assert locked == [(True, True)]


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK])
@pytest.mark.parametrize("setting", LOCKING)
def test_a_file_system_without_locks_is_named_with_the_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str, number: int
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(HostError) as caught:
        LOCKING[setting](tmp_path)
    (problem,) = caught.value.problems
    assert problem.where == str(tmp_path)
    assert os.strerror(number) in problem.why
    assert setting in problem.hint


def test_one_at_a_time_holds_a_lock_whose_file_is_removed(tmp_path: Path) -> None:
    inside, most, counting = 0, 0, threading.Lock()

    def enter(_: int) -> None:
        nonlocal inside, most
        with partial.held(tmp_path):
            with counting:
                inside += 1
                most = max(most, inside)
            os.sched_yield()
            with counting:
                inside -= 1

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(enter, range(400)))
    assert most == 1
    assert list(tmp_path.iterdir()) == []


def test_a_lock_is_not_taken_on_a_file_that_was_removed_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, lock, removed = tmp_path / "lock", fcntl.flock, list[int]()

    def remove_first(held: int, mode: int) -> None:
        lock(held, mode)
        if not removed:
            removed.append(os.fstat(held).st_ino)
            path.unlink()

    monkeypatch.setattr(fcntl, "flock", remove_first)
    held = flock.exclusive(path)
    assert held is not None
    assert path.stat().st_ino == os.fstat(held).st_ino
    os.close(held)


def test_a_lock_does_not_write_through_a_link(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.write_text("text")
    (tmp_path / "x.make").symlink_to(mine)
    (tmp_path / partial.LOCK).symlink_to(mine)
    with pytest.raises(OSError, match="symbolic links"):
        flock.exclusive(tmp_path / "x.make")
    with pytest.raises(OSError, match="symbolic links"), partial.held(tmp_path):
        pass
    (tmp_path / ".x.sif.partial-a").symlink_to(mine)
    partial.remove_leftovers(tmp_path / "x.sif")
    assert mine.read_text() == "text"
