"""Remove the caches of a node when the last of its ranks has ended.

Slurm kills what is left of a step as soon as its last task has ended (10 ms later, where nothing
holds it up), and a container with process ids of its own ends with its first process. So nothing
can be removed after the rank: with ``--remove-caches`` lumi-entry stays, as a guard that starts the
program as its child, hands signals on to it, and ends as it ended. Each guard holds a shared lock
on the folder, which the kernel lets go of however the guard ends; the one that gets it for itself
is the last, and removes the folder before it ends.

Where all processes of a step are killed at once (``scancel`` of a step, or of a job that ignores
TERM), the guards go too. What is left then goes with the next run of this user on the node that
removes its caches.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` takes 4 ms more
import fcntl
import os

from .caches import is_private, open_private

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

TRIES = 100
_KILLED = 128
_FAULTS = {"SIGILL", "SIGTRAP", "SIGABRT", "SIGBUS", "SIGFPE", "SIGSEGV", "SIGSYS"}
_STOPS = {"SIGKILL", "SIGSTOP", "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGCONT"}
_NOT_HANDED_ON = {getattr(_signal, name) for name in (*_FAULTS, *_STOPS)}
_PR_SET_PDEATHSIG = 1


def hold(path: str) -> None:
    """Hold the private folder ``path`` until the program ends, and have it removed then.

    It returns in a process of its own, which is to become the program. Raises OSError where the
    folder cannot be made or is not private.
    """
    lock = _held(path)
    awaited = {*_signal.valid_signals()} - _NOT_HANDED_ON
    before = _signal.pthread_sigmask(_signal.SIG_BLOCK, awaited)
    ignored = _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL) == _signal.SIG_IGN
    guard = os.getpid()
    child = os.fork()
    if child:
        _guard(child, path, lock, awaited)
    os.close(lock)
    _end_with(guard)
    if ignored:
        _signal.signal(_signal.SIGCHLD, _signal.SIG_IGN)
    _signal.pthread_sigmask(_signal.SIG_SETMASK, before)


def _held(path: str) -> int:
    """Return a descriptor that holds the shared lock on the folder ``path``, made if need be."""
    for _ in range(TRIES):
        try:
            own = open_private(path)
        except FileNotFoundError:  # removed since it was made
            continue
        fcntl.flock(own, fcntl.LOCK_SH)
        if _is_at(path, own):
            return own
        os.close(own)
    raise FileNotFoundError(2, "it is removed time and again", path)


def _guard(child: int, path: str, lock: int, awaited: set[int]) -> NoReturn:
    status = _KILLED << 8
    try:
        _sweep(path)
        status = _outlived(child, awaited)
        _remove(path, lock)
    finally:
        _end_as(status)


def _end_with(guard: int) -> None:
    """Have the kernel kill this process when the guard dies: kill -9 of a rank is one of both."""
    try:
        import _ctypes  # noqa: PLC0415 - `ctypes` takes 3 ms
    except ImportError:  # a Python that was built without it
        return
    libc = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]  # None is this program itself
    prctl = _ctypes.dlsym(libc, "prctl")
    _ctypes.call_function(prctl, (_PR_SET_PDEATHSIG, int(_signal.SIGKILL), 0, 0, 0))
    if os.getppid() != guard:
        os._exit(_KILLED + _signal.SIGKILL)


def _outlived(child: int, awaited: set[int]) -> int:
    """Hand signals on to ``child`` until it has ended; return how it did."""
    while True:
        got = _signal.sigwaitinfo(awaited)
        if got.si_signo != _signal.SIGCHLD:
            # What the kernel sends, as for Ctrl-C, goes to all of a terminal's processes.
            if got.si_code <= 0:
                os.kill(child, got.si_signo)
            continue
        # The first process of a container gets the children of others, too.
        ended, status = os.waitpid(-1, os.WNOHANG)
        while ended:
            if ended == child:
                return status
            ended, status = os.waitpid(-1, os.WNOHANG)


def _end_as(status: int) -> NoReturn:
    """End this process as the one with the wait status ``status`` ended."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        _without_core()
        if number != _signal.SIGKILL:
            _signal.signal(number, _signal.SIG_DFL)
            _signal.pthread_sigmask(_signal.SIG_UNBLOCK, {number})
        os.kill(os.getpid(), number)
        # The first process of a container cannot be killed so.
        os._exit(_KILLED + number)
    os._exit(os.WEXITSTATUS(status))


def _without_core() -> None:
    import resource  # noqa: PLC0415 - seldom needed

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _sweep(path: str) -> None:
    """Remove what runs of this user that were cut short left beside ``path``."""
    base, own = os.path.split(path)
    stem = f"lumi-{os.geteuid()}-"
    try:
        names = os.listdir(base)
    except OSError:  # as of a folder in which all may write and none may look
        return
    for name in names:
        if name.startswith(stem) and "-once" in name and name != own:
            _remove(os.path.join(base, name))


def _remove(path: str, lock: int | None = None) -> None:
    """Remove the folder ``path``, unless somebody else holds it than ``lock`` does."""
    try:
        own = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW) if lock is None else lock
        if is_private(os.fstat(own)) and _locked(own) and _is_at(path, own):
            _remove_all(own, path)
        os.close(own)
    except OSError:  # nobody is left to be told
        return


def _remove_all(own: int, path: str) -> None:
    for _ in range(TRIES):
        try:
            _empty(own)
            os.rmdir(path)
        except OSError:  # helpers of the program that outlived it still write there
            continue
        return


def _empty(folder: int) -> None:
    """Remove all that lies in an open folder; links go, what they lead to stays."""
    for name in os.listdir(folder):
        try:
            os.unlink(name, dir_fd=folder)
        except IsADirectoryError:
            inner = _open(name, folder)
            try:
                os.fchmod(inner, 0o700)
                _empty(inner)
            finally:
                os.close(inner)
            os.rmdir(name, dir_fd=folder)


def _open(name: str, folder: int) -> int:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
    try:
        return os.open(name, flags, dir_fd=folder)
    except PermissionError:  # made unreadable by the program
        os.chmod(name, 0o700, dir_fd=folder)
        return os.open(name, flags, dir_fd=folder)


def _locked(descriptor: int) -> bool:
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
