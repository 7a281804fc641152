"""End a rank when the launcher that started it dies, which frees its GPU's memory."""

import ctypes
import os
import signal
from contextlib import suppress

_PR_SET_PDEATHSIG = 1
_KILLED = 128 + signal.SIGKILL


def end_with(parent: int) -> None:
    """Let the kernel kill this process, and the program that replaces it, when ``parent`` dies.

    The parent must have started it from its main thread: the kernel watches a thread (prctl(2),
    PR_SET_PDEATHSIG). Children of this process do not inherit the setting.
    """
    _send_at_death(signal.SIGKILL)
    # The parent may have died before.
    if os.getppid() != parent:
        os._exit(_KILLED)


def end_with_launcher(launcher: int) -> None:
    """Do the same for a rank, unless a program between the two started it, such as mpirun."""
    _send_at_death(signal.SIGKILL)
    if os.getppid() == launcher:
        return
    _send_at_death(0)
    if not _is_alive(launcher):
        os._exit(_KILLED)


def _send_at_death(number: int) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)


def _is_alive(pid: int) -> bool:
    with suppress(OSError), open(f"/proc/{pid}/stat", "rb") as stream:
        # PID (NAME) STATE; the name may hold any character.
        return stream.read().rpartition(b")")[2][1:2] not in (b"Z", b"X", b"")
    return False
