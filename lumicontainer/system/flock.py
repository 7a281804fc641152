"""File locks between builds; the kernel releases them when their process ends."""

import contextlib
import errno
import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from lumicontainer.errors import HostError, Problem


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
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def users(path: Path) -> str:
    """Return which processes of this host hold the lock of ``path`` (proc_locks(5))."""
    number, found = path.stat().st_ino, set()
    with contextlib.suppress(OSError):
        rows = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
        held = [row for row in rows if row[1] == "FLOCK" and row[5].endswith(f":{number}")]
        found = {row[4] for row in held} - {str(os.getpid())}
    return ", ".join(f"process {each}" for each in sorted(found)) or "another build"


def _lock(path: Path, mode: int) -> int | None:
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if error.errno in (errno.EWOULDBLOCK, errno.EINTR):
            return None
        hint = "name another place with LUMICONTAINER_CACHE and LUMICONTAINER_TMPDIR"
        raise refusal(error, "builds", path, hint) from error
    return descriptor


def refusal(error: OSError, what: str, path: Path, hint: str) -> HostError:
    """Return the error for a file system without locks (Lustre with ``noflock``)."""
    why = f"its file system has no locks: {error.strerror}"
    return HostError(Problem(f"{what} cannot be kept apart", str(path), why, hint))
