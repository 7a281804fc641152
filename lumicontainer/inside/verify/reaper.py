"""Run one process of a check, kill its descendants: ``reaper.py LIFELINE FOLDER COMMAND ...``.

The reaper adopts orphaned descendants of the check in any session (PR_SET_CHILD_SUBREAPER in
prctl(2)). It kills all of them when the command has ended, and when lumi-verify closes its end of
the pipe LIFELINE, which also happens if lumi-verify dies; then it removes lumi-verify's FOLDER
(none: ""). It ends as the command did.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import select
import shutil
import signal
import struct
import sys
import time
from collections.abc import Callable, Sequence

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_NOT_FOUND = 127  # A shell's exit code if the command is not found
NUMBER = struct.Struct("=q")  # a pid, or a status of waitpid(2)
PATIENCE = 2  # seconds for killed processes to end; those that wait in a driver do not
# Signals for lumi-verify, even if they are sent to all processes.
_ENDING = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)


def below(pid: int) -> list[int]:
    """Return the descendants of ``pid``, parents before children, without zombies."""
    children: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as stream:
                # PID (NAME) STATE PARENT ...; the name may hold any character.
                state, parent = stream.read().rpartition(")")[2].split()[:2]
        except (OSError, ValueError):  # it has ended
            continue
        if state not in "ZX":
            children.setdefault(int(parent), []).append(int(name))
    descendants = children.get(pid, [])[:]
    for each in descendants:
        descendants += children.get(each, [])
    return descendants


def main(words: Sequence[str]) -> None:
    """Run the command, and end as it does."""
    supervise(int(words[0]), lambda: _execute(words[2:]), folder=words[1])


def supervise(
    lifeline: int, run: Callable[[], None], *, folder: str = "", report: int | None = None
) -> None:
    """Call ``run`` in a new process, and end as it does; only that process returns from here.

    The status of the process is written to the pipe ``report``. ``folder`` is removed if the parent
    has died.
    """
    parent = os.getppid()
    os.set_inheritable(lifeline, False)
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    # A check that crashes writes no core file to the current folder.
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    for number in _ENDING:
        signal.signal(number, lambda *_: None)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    child = _forked()
    if not child:
        for each in (woken, wake, lifeline, report):
            if each is not None:
                os.close(each)
        run()
        return
    # Not select(2), which is limited to descriptors below 1024.
    watched = select.poll()
    for each in (lifeline, woken):
        watched.register(each, select.POLLIN)
    status = None
    while status is None:
        if any(each == lifeline for each, _ in watched.poll()):
            break
        os.read(woken, 4096)
        status = _reaped(child)
    _kill_all()
    if os.getppid() != parent:
        shutil.rmtree(folder, ignore_errors=True)
    if report is not None:
        with contextlib.suppress(BrokenPipeError):  # lumi-verify waits no longer
            os.write(report, NUMBER.pack(status or 0))
    _end_as(status)


def _forked() -> int:
    """Start a process that dies with this one; return its pid, and 0 in that process."""
    own = os.getpid()
    child = os.fork()
    if child:
        return child
    signal.set_wakeup_fd(-1)
    for number in (*_ENDING, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    end_with(own)
    return 0


def end_with(parent: int) -> None:
    """Let the kernel kill this process when its parent ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(_NOT_FOUND)


def _execute(command: Sequence[str]) -> None:
    # Python ignores these signals, and programs inherit that.
    for name in ("SIGPIPE", "SIGXFSZ"):
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    try:
        os.execvp(command[0], list(command))  # noqa: S606 - a shell is one of the commands
    except OSError as error:
        os.write(2, f"cannot start {command[0]}: {error.strerror}\n".encode())
    os._exit(_NOT_FOUND)


def _reaped(child: int) -> int | None:
    status = None
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            status = ended[1] if ended[0] == child else status
    return status


def _kill_all() -> None:
    # Repeat: a process may start another one before it is killed.
    end = time.monotonic() + PATIENCE
    while (left := below(os.getpid())) and time.monotonic() < end:
        for pid in left:
            with contextlib.suppress(OSError):  # it has ended, or is another user's
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)
        _reaped(0)


def _end_as(status: int | None) -> None:
    if status is not None and os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status) if status is not None else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
