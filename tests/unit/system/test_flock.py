"""A lock holds as long as its block, on every file system that has locks."""

import ast
import errno
import fcntl
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lumicontainer.errors import HostError
from lumicontainer.system import flock
from lumicontainer.system.files import partial, temporary

from ...conftest import ROOT

LOCKING = {
    "LUMICONTAINER_CACHE": lambda folder: flock.exclusive(folder / "x.make"),
    "LUMICONTAINER_TMPDIR": lambda folder: temporary.guard(folder).__enter__(),
    "--output": lambda folder: partial.hold_folder(folder).__enter__(),
    "another --output": lambda folder: partial.partial_file(folder / "x.sif").__enter__(),
}
"""Functions that take locks, by the setting that names another folder."""


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


ONE_PLACE = {"system/flock.py": {"share", "lock_file"}}
"""The functions that lock the files by which nodes wait for each other."""
OF_THE_NODE = {
    "inside/rank/batons.py": {"hold"},
    "inside/rank/cache_removal.py": {"_hold", "_remove"},
    "system/files/temporary.py": {"keep_from_cleaners"},
}
"""The functions that lock a folder which no other node uses: the ranks' caches, and, for
systemd-tmpfiles of the same node, the folder of a build."""


def functions_that_lock(file: Path) -> Iterator[str]:
    """Yield the functions of a module that take a lock from the system."""
    for function in ast.walk(ast.parse(file.read_text())):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                match node:
                    case ast.Attribute(ast.Name("fcntl" | "os"), "flock" | "lockf"):
                        yield function.name


def test_locks_between_nodes_are_taken_in_one_place() -> None:
    package = ROOT / "lumicontainer"
    files = {str(file.relative_to(package)): file for file in package.rglob("*.py")}
    locking = {name: set(functions_that_lock(file)) for name, file in files.items()}
    assert {name: each for name, each in locking.items() if each} == ONE_PLACE | OF_THE_NODE


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
        with partial.hold_folder(tmp_path):
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
    with pytest.raises(HostError, match="symbolic links"), partial.hold_folder(tmp_path):
        pass
    (tmp_path / ".x.sif.partial-a").symlink_to(mine)
    partial.remove_leftovers(tmp_path / "x.sif")
    assert mine.read_text() == "text"


@pytest.mark.parametrize(
    ("create", "why"),
    [
        (Path.mkdir, "Is a directory"),
        (os.mkfifo, "it is a pipe, not a file"),
        (lambda path: path.symlink_to("/dev/zero"), "Too many levels of symbolic links"),
    ],
)
def test_what_is_no_lock_file_is_named_and_stays(
    tmp_path: Path, create: Callable[[Path], object], why: str
) -> None:
    lock = tmp_path / partial.LOCK
    create(lock)
    with pytest.raises(HostError) as caught, partial.hold_folder(tmp_path):
        pass
    (problem,) = caught.value.problems
    assert (problem.where, problem.why) == (str(lock), why)
    assert f"mv {lock} {lock}.old" in problem.hint
    assert os.path.lexists(lock)


STRANGER = 54321
IN_A_FOLDER_OF_ALL = """
import os, sys
from pathlib import Path
from lumicontainer.errors import HostError
from lumicontainer.system.files.partial import hold_folder
os.setgroups([])
os.setuid(int(sys.argv[2]))
try:
    with hold_folder(Path(sys.argv[1])):
        print("held")
except HostError as error:
    print(error.problems[0].why)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.getuid() != 0, reason="root alone can be another user")
def test_the_lock_file_of_another_user_does_not_fail_finished_work(tmp_path: Path) -> None:
    for each in (tmp_path, *tmp_path.parents):
        if each.stat().st_mode & 0o005 != 0o005:
            each.chmod(0o755)
    tmp_path.chmod(0o1777)
    lock = tmp_path / partial.LOCK
    lock.touch()
    lock.chmod(0o666)
    command = [sys.executable, "-c", IN_A_FOLDER_OF_ALL, str(tmp_path), str(STRANGER)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    # The kernel may refuse to open the file (sysctl fs.protected_regular).
    assert done.returncode == 0, done.stderr
    assert done.stdout in ("held\n", "Permission denied\n")
    assert lock.exists()


def test_a_wait_for_the_lock_of_another_process_is_announced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    announced = threading.Event()
    monkeypatch.setattr(flock, "_SILENCE", 0)
    monkeypatch.setattr(flock, "say", lambda text: (announced.set(), print(text)))
    lock = tmp_path / partial.LOCK
    held = flock.exclusive(lock)
    assert held is not None
    with ThreadPoolExecutor(1) as thread:

        def wait() -> None:
            with partial.hold_folder(tmp_path):
                pass

        waiting = thread.submit(wait)
        assert announced.wait(60)
        os.close(held)
        waiting.result()
    assert f"which holds {lock}" in capfd.readouterr().out
