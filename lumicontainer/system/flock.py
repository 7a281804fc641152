"""Locks between builds: they end with the process that holds them, however it ends."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import socket
import time
from pathlib import Path

from lumicontainer.errors import HostError, Problem


def exclusive(path: Path) -> int | None:
    """Return a descriptor that holds the lock of ``path`` alone, or None where others hold it."""
    held = _lock(path, fcntl.LOCK_EX)
    if held is not None:
        now = time.strftime("%H:%M:%S")
        told = {"host": socket.gethostname(), "process": os.getpid(), "since": now}
        # It is only told to who waits; what makes room on a full disk needs the lock itself.
        with contextlib.suppress(OSError):
            os.ftruncate(held, 0)
            os.pwrite(held, json.dumps(told).encode(), 0)
    return held


def shared(path: Path) -> int | None:
    """Return a descriptor that holds the lock of ``path`` with others, or None."""
    return _lock(path, fcntl.LOCK_SH)


def share(held: int) -> None:
    """Let others hold a lock too, which a descriptor of ``exclusive`` holds alone."""
    fcntl.flock(held, fcntl.LOCK_SH)


def holder(path: Path) -> str:
    """Return in words who took the lock of ``path`` last, or nothing before it is told."""
    try:
        told = json.loads(path.read_bytes())
        return f"host {told['host']}, process {told['process']}, since {told['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def users(path: Path) -> str:
    """Return in words which processes of this host hold the lock of ``path`` (proc_locks(5))."""
    number, found = path.stat().st_ino, set()
    with contextlib.suppress(OSError):
        rows = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
        held = [row for row in rows if row[1] == "FLOCK" and row[5].endswith(f":{number}")]
        found = {row[4] for row in held} - {str(os.getpid())}
    return ", ".join(f"process {each}" for each in sorted(found)) or "another build"


def _lock(path: Path, how: int) -> int | None:
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if error.errno in (errno.EWOULDBLOCK, errno.EINTR):
            return None
        why = f"its file system has no locks: {error.strerror}"
        hint = "name another place with LUMICONTAINER_CACHE and LUMICONTAINER_TMPDIR"
        raise HostError(Problem("builds cannot be kept apart", str(path), why, hint)) from error
    return descriptor
