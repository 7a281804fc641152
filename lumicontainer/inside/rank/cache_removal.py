"""Remove the caches of a node after the last of its ranks has ended."""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import shutil
import signal
from typing import NoReturn

from ..launch.parent import end_with
from ..node.private_folder import is_private, open_private

TRIES = 100
_KILLED = 128
_FAULTS = {"SIGILL", "SIGTRAP", "SIGABRT", "SIGBUS", "SIGFPE", "SIGSEGV", "SIGSYS"}
_STOPS = {"SIGKILL", "SIGSTOP", "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGCONT"}
_NOT_FORWARDED = {getattr(signal, name) for name in (*_FAULTS, *_STOPS)}


# Slurm kills the processes of a step about 10 ms after its last task, and a container with its own
# process ids ends with its first process. So nothing can be removed after the rank. With
# ``--remove-caches`` lumi-entry stays: it starts the program as its child, forwards signals, and
# exits as the program did. Each lumi-entry holds a shared lock on the folder, which the kernel
# releases in any case. The last one gets an exclusive lock, and removes the folder before it ends.
def hold(path: str) -> None:
    """Lock the private folder ``path`` until the program ends, then remove it.

    Returns in a child process, which is to become the program. Raises OSError if the folder cannot
    be created or is not private.
    """
    lock = _hold(path)
    awaited = {*signal.valid_signals()} - _NOT_FORWARDED
    before = signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
    ignored = signal.signal(signal.SIGCHLD, signal.SIG_DFL) == signal.SIG_IGN
    guard = os.getpid()
    child = os.fork()
    if child:
        _guard(child, path, lock, awaited)
    os.close(lock)
    # kill -9 of a rank may hit either.
    end_with(guard)
    if ignored:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _hold(path: str) -> int:
    """Return a descriptor with a shared lock on the folder ``path``, which is created if needed."""
    for _ in range(TRIES):
        try:
            own = open_private(path)
        except FileNotFoundError:  # removed since it was made
            continue
        fcntl.flock(own, fcntl.LOCK_SH)
        if _is_at(path, own):
            return own
        os.close(own)
    raise FileNotFoundError(2, "other processes keep removing it", path)


def _guard(child: int, path: str, lock: int, awaited: set[signal.Signals]) -> NoReturn:
    status = _KILLED << 8
    try:
        _sweep(path)
        status = _wait_for(child, awaited)
        _remove(path, lock)
    finally:
        _end_as(status)


def _wait_for(child: int, awaited: set[signal.Signals]) -> int:
    while True:
        got = signal.sigwaitinfo(awaited)
        if got.si_signo != signal.SIGCHLD:
            # Signals from the kernel, as for Ctrl-C, reach all processes of a terminal.
            if got.si_code <= 0:
                os.kill(child, got.si_signo)
            continue
        # The first process of a container inherits the children of others.
        ended, status = os.waitpid(-1, os.WNOHANG)
        while ended:
            if ended == child:
                return status
            ended, status = os.waitpid(-1, os.WNOHANG)


def _end_as(status: int) -> NoReturn:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        os.kill(os.getpid(), number)
        # The first process of a container ignores its own signals.
        os._exit(_KILLED + number)
    os._exit(os.WEXITSTATUS(status))


# If all processes of a step are killed at once (``scancel`` of a step, or of a job that ignores
# TERM), the folder stays until this user's next run on the node with ``--remove-caches``.
def _sweep(path: str) -> None:
    base, own = os.path.split(path)
    stem = f"lumi-{os.geteuid()}-"
    try:
        names = os.listdir(base)
    except OSError:  # users may be allowed to write in the folder, but not to read it
        return
    for name in names:
        if name.startswith(stem) and "-once" in name and name != own:
            _remove(os.path.join(base, name))


def _remove(path: str, lock: int | None = None) -> None:
    try:
        own = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW) if lock is None else lock
        # Raises BlockingIOError if another process has locked it.
        fcntl.flock(own, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if is_private(os.fstat(own)) and _is_at(path, own):
            _remove_all(path)
        os.close(own)
    except OSError:  # the rank has ended; nothing can be reported
        return


def _remove_all(path: str) -> None:
    for _ in range(TRIES):
        try:
            shutil.rmtree(path)
        except OSError:  # processes that outlived the program still write there
            _permit(path)
        else:
            return


def _permit(path: str) -> None:
    """Permit the removal of folders whose mode the program changed."""
    for folder, names, _ in os.walk(path):
        for name in (os.path.join(folder, each) for each in names):
            with contextlib.suppress(OSError):
                if not os.path.islink(name):
                    os.chmod(name, 0o700)


def _is_at(path: str, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.lstat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False
