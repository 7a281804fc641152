"""Remove the lock files that killed processes left in the folder of PyTorch's extensions.

PyTorch creates the file ``lock`` in an extension's folder while it compiles. A process that finds
one waits until it is gone, for ever if its owner was killed (torch/utils/file_baton.py, FileBaton).
"""

import contextlib
import fcntl
import os

FOLDER = "TORCH_EXTENSIONS_DIR"
# Shell scripts close their own descriptors, mostly below 10 (exec 3>FILE).
_LEAST = 150


def hold(folder: str) -> None:
    """Remove dead processes' lock files in ``folder``, and hold it until the program ends.

    Each rank holds a shared lock (flock), which the program that this process becomes inherits and
    the kernel releases in any case. A rank that gets an exclusive one first is alone. Raises
    OSError if the folder cannot be locked.
    """
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    held = fcntl.fcntl(opened, fcntl.F_DUPFD, _LEAST)
    os.close(opened)
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _remove_locks(folder)
    fcntl.flock(held, fcntl.LOCK_SH)


def _remove_locks(folder: str) -> None:
    for name in os.listdir(folder):
        with contextlib.suppress(OSError):  # most extensions have none
            os.unlink(os.path.join(folder, name, "lock"))
