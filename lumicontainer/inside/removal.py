"""Remove the caches of a node when the last of its ranks has ended.

lumi-entry becomes the program, so it is not there any more at the end. Each rank holds a shared
lock on the folder instead, on a descriptor that the program inherits: the kernel lets go of it
however the program ends, kill -9 included. One small process a node waits for the lock of its own
and removes the folder. It stays in Slurm's step, and can outlast the ranks by the removal only.

Slurm kills what is left of a step when its last task has ended, and a container with process ids of
its own (``--pid``, Docker) ends with its first process, so the removal may be cut short there. What
is left then goes with the next run of this user on the node that removes its caches.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` takes 4 ms more
import fcntl
import os

from .caches import is_private, open_private

HIGH = 100
"""Above the descriptors that shell scripts open by number, which would close the lock's."""
TRIES = 100
MARKER = ".removal"
SIGNALS = ("SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2")
"""What may be sent to all of a step, and shall not end the process that removes."""


def hold(path: str) -> None:
    """Hold the private folder ``path`` until this program ends, and have it removed then.

    Raises OSError where it cannot be made or is not private.
    """
    for _ in range(TRIES):
        try:
            own = open_private(path)
        except FileNotFoundError:  # removed since it was made
            continue
        fcntl.flock(own, fcntl.LOCK_SH)
        if _is_at(path, own):
            break
        os.close(own)
    else:
        raise FileNotFoundError(2, "it is removed time and again", path)
    held = fcntl.fcntl(own, fcntl.F_DUPFD, HIGH)
    os.set_inheritable(held, True)
    marker = os.open(MARKER, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600, dir_fd=own)
    if _lock(marker):
        _start(path, marker)
    os.close(marker)
    os.close(own)


def _start(path: str, marker: int) -> None:
    # One to all of the step may come before the child has had time to ignore it.
    before = _signal.pthread_sigmask(_signal.SIG_BLOCK, [getattr(_signal, n) for n in SIGNALS])
    # The program waits for children of its own, and shall not meet this one among them.
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        _signal.pthread_sigmask(_signal.SIG_SETMASK, before)
        return
    try:
        if not os.fork():
            _detach(marker)
            _read_all_code()
            _sweep(path)
            _remove(path, wait=True)
    finally:
        os._exit(0)


def _detach(marker: int) -> None:
    """Let go of all that the rank has but ``marker``, whose lock says that somebody is at it."""
    os.setsid()
    for name in SIGNALS:
        _signal.signal(getattr(_signal, name), _signal.SIG_IGN)
    os.chdir("/")
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) != marker:
            _close(int(name))


def _read_all_code() -> None:
    """Have every page of this program in memory.

    Apptainer without setuid reads the image through a process that ends with the rank; each page
    that is read after that is SIGBUS.
    """
    try:
        memory = os.open("/proc/self/mem", os.O_RDONLY)
        with open("/proc/self/maps", "rb") as stream:
            lines = stream.read().splitlines()
    except OSError:
        return
    for line in lines:
        addresses, access, *_, place = line.split(None, 5)
        if place.startswith(b"/") and access.startswith(b"r"):
            begin, end = (int(address, 16) for address in addresses.split(b"-"))
            try:
                os.pread(memory, end - begin, begin)
            except OSError:  # a page behind the end of its file
                continue
    os.close(memory)


def _close(descriptor: int) -> None:
    try:
        os.close(descriptor)
    except OSError:  # that of the listing itself
        return


def _sweep(path: str) -> None:
    """Remove what runs of this user that were cut short left beside ``path``."""
    base, own = os.path.split(path)
    stem = f"lumi-{os.geteuid()}-"
    for name in os.listdir(base):
        if name.startswith(stem) and "-once" in name and name != own:
            _remove(os.path.join(base, name), wait=False)


def _remove(path: str, *, wait: bool) -> None:
    """Remove the folder ``path`` once nobody holds it; without ``wait`` only if nobody does."""
    try:
        own = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        if not is_private(os.fstat(own)):
            return
        if wait:
            fcntl.flock(own, fcntl.LOCK_EX)
        elif not _lock(own):
            return
        _empty(own)
        if _is_at(path, own):
            os.rmdir(path)
    except OSError:  # nobody is left to be told
        return


def _empty(folder: int) -> None:
    """Remove all that lies in an open folder; links go, what they lead to stays."""
    for name in os.listdir(folder):
        try:
            os.unlink(name, dir_fd=folder)
        except IsADirectoryError:
            inner = _open(name, folder)
            os.fchmod(inner, 0o700)
            _empty(inner)
            os.close(inner)
            os.rmdir(name, dir_fd=folder)


def _open(name: str, folder: int) -> int:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
    try:
        return os.open(name, flags, dir_fd=folder)
    except PermissionError:  # made unreadable by the program
        os.chmod(name, 0o700, dir_fd=folder)
        return os.open(name, flags, dir_fd=folder)


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(path: str, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.lstat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False
