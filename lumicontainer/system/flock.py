"""File locks between builds; the kernel releases them when their process ends.

They are locks of flock(2) on regular files that are open for writing. NFS keeps such locks on its
server, as locks of bytes, and Lustre does if it is mounted with ``flock``. Neither does that for
folders: a lock on one is known to its node only. Locks of fcntl(2) would not do: a process loses
them when any of its descriptors of the file is closed, and its children do not inherit them.
"""

import contextlib
import errno
import fcntl
import json
import os
import shlex
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from lumicontainer.errors import HostError, Problem
from lumicontainer.system.files.regular import kind
from lumicontainer.system.os_errors import refused
from lumicontainer.system.terminal.output import say

_SILENCE = 2.0
"""Seconds for which a wait is not worth a message."""


class Purpose(NamedTuple):
    """Say what locks keep apart, and where else it may be."""

    what: str
    hint: str


BUILDS = Purpose("builds", "name another place with LUMICONTAINER_CACHE and LUMICONTAINER_TMPDIR")
RESULTS = Purpose("results", "name another --output")


def exclusive(path: Path) -> int | None:
    """Return a descriptor that holds the lock of ``path`` alone; None if others hold it."""
    held = _lock(path, fcntl.LOCK_EX)
    if held is not None:
        now = time.strftime("%H:%M:%S")
        owner = {"host": socket.gethostname(), "process": os.getpid(), "since": now}
        # The text only informs other builds; on a full disk the lock itself matters.
        with contextlib.suppress(OSError):
            os.ftruncate(held, 0)
            os.pwrite(held, json.dumps(owner).encode(), 0)
    return held


@contextlib.contextmanager
def attempt(path: Path) -> Iterator[bool]:
    """Hold the lock of ``path`` alone in the block; yield whether this process got it."""
    held = exclusive(path)
    try:
        yield held is not None
    finally:
        if held is not None:
            os.close(held)


def shared(path: Path) -> int | None:
    """Return a descriptor that shares the lock of ``path``; None if another holds it alone."""
    return _lock(path, fcntl.LOCK_SH)


def share(held: int) -> None:
    """Turn the exclusive lock of a descriptor into a shared one."""
    fcntl.flock(held, fcntl.LOCK_SH)


def holder(path: Path) -> str:
    """Return who took the lock of ``path`` last; empty if that is not known."""
    try:
        owner = json.loads(path.read_bytes())
        return f"host {owner['host']}, process {owner['process']}, since {owner['since']}"
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return ""


def users(path: Path) -> str:
    """Return which processes of this host hold the lock of ``path`` (proc_locks(5))."""
    users_seen = set()
    with contextlib.suppress(OSError):
        number = path.stat().st_ino
        rows = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
        held = [row for row in rows if row[1] == "FLOCK" and row[5].endswith(f":{number}")]
        users_seen = {row[4] for row in held} - {str(os.getpid())}
    return ", ".join(f"process {each}" for each in sorted(users_seen)) or "another build"


@contextlib.contextmanager
def hold(path: Path, purpose: Purpose = BUILDS, *, own: bool = False) -> Iterator[None]:
    """Wait for the lock of the file ``path``, hold it in the block, and remove the file.

    A longer wait is announced. What no process waits for leaves no file behind. Raises
    ``HostError`` if the file cannot be locked, or belongs to another user and is to be our ``own``.
    """
    try:
        held = _wait_for(path, purpose, own=own)
    except HostError:
        path.unlink(missing_ok=True)  # It locks nothing.
        raise
    except OSError as error:
        name = shlex.quote(str(path))
        hint = f"if no command writes there: mv {name} {name}.old\nelse {purpose.hint}"
        raise refused(error, f"cannot keep {purpose.what} apart", str(path), hint) from error
    try:
        yield
    finally:
        # Others that have opened it see that it is gone once they have its lock. In a folder with
        # the sticky bit, a file of another user stays.
        with contextlib.suppress(OSError):
            path.unlink()
        os.close(held)


def _wait_for(path: Path, purpose: Purpose, *, own: bool) -> int:
    permissions = 0o600 if own else 0o666
    held = _take(path, fcntl.LOCK_EX | fcntl.LOCK_NB, purpose, permissions, own=own)
    if held is not None:
        return held
    announcement = threading.Timer(_SILENCE, _announce, [path])
    announcement.start()
    try:
        held = _take(path, fcntl.LOCK_EX, purpose, permissions, own=own)
    finally:
        announcement.cancel()
    assert held is not None
    return held


def _announce(path: Path) -> None:
    say(f"waiting for {users(path)}, which holds {path}")


def lock_file(descriptor: int, path: Path, mode: int, purpose: Purpose = BUILDS) -> bool:
    """Lock an open file; return False if others hold it and ``mode`` has ``LOCK_NB``.

    Raises ``HostError`` if the file system has no locks (Lustre with ``noflock``). A file that
    another node removed meanwhile need not be locked: ``is_at`` says so.
    """
    try:
        fcntl.flock(descriptor, mode)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EINTR):
            return False
        if error.errno == errno.ESTALE:
            return True
        what, where = f"{purpose.what} cannot be kept apart", str(path.parent)
        why = f"the file system of this folder has no locks: {error.strerror}"
        raise HostError(Problem(what, where, why, purpose.hint)) from error
    return True


def _lock(path: Path, mode: int) -> int | None:
    return _take(path, mode | fcntl.LOCK_NB, BUILDS, 0o600)


def _take(
    path: Path, mode: int, purpose: Purpose, permissions: int, *, own: bool = False
) -> int | None:
    while True:
        try:
            return _open_and_lock(path, mode, purpose, permissions, own=own)
        except OSError as error:
            # Who held the file before may have removed it.
            if error.errno != errno.ESTALE:
                raise
            _forget_names(path.parent)


def _open_and_lock(
    path: Path, mode: int, purpose: Purpose, permissions: int, *, own: bool
) -> int | None:
    """Raise OSError with ``ESTALE`` if the file was removed meanwhile."""
    flags = os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
    descriptor = os.open(path, flags, permissions)
    with contextlib.ExitStack() as stack:
        stack.callback(os.close, descriptor)
        if other := kind(os.fstat(descriptor).st_mode):
            raise OSError(None, f"it is {other}, not a file", str(path))
        if own and os.fstat(descriptor).st_uid != os.geteuid():
            raise OSError(None, "it belongs to another user", str(path))
        if not lock_file(descriptor, path, mode, purpose):
            return None
        if not is_at(descriptor, path):
            raise OSError(errno.ESTALE, "it was removed", str(path))
        stack.pop_all()
    return descriptor


def is_at(descriptor: int, path: Path) -> bool:
    """Return whether a file that was just locked still has the name ``path``.

    Another node may have removed it. NFS believes in old names for a while, but asks its server for
    the attributes of a file after each lock.
    """
    try:
        _forget_names(path.parent)
        info = os.fstat(descriptor)
        return info.st_nlink > 0 and os.path.samestat(path.lstat(), info)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ESTALE):
            return False
        raise


def _forget_names(folder: Path) -> None:
    """Open a folder: NFS asks its server then whether names in it have changed (nfs(5))."""
    os.close(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
