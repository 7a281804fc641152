"""End a rank by SIGINT while it waits for the others at its start; its Python's ``site`` runs this.

Python raises KeyboardInterrupt between bytecodes of the main thread. PyTorch waits for an absent
node in C++, for minutes. The interpreter's own handler writes each signal's number to the wakeup
descriptor at once, which another thread reads. It ends the process only in ``init_process_group``,
and only if SIGINT is Python's own: later, compiled code may be writing a checkpoint.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from types import FrameType
from typing import Optional

STARTED = "interrupt"  # the name under which the .pth file runs this file
PROCESS = "LUMI_ENTRY_PROCESS"
"""The variable with the process of the rank: its children have it, too, and do not watch."""
_STARTS = ("torch/distributed/distributed_c10d.py", "init_process_group")
_PATIENCE = 3.0  # seconds in which the main thread must raise KeyboardInterrupt
_ENDED = 128 + signal.SIGINT


def _is_python_own() -> bool:
    """Return whether the program leaves SIGINT to Python."""
    return signal.getsignal(signal.SIGINT) is signal.default_int_handler


def watch() -> None:
    """Start the thread that reads signals."""
    if not _is_python_own():
        return
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    os.register_at_fork(after_in_child=lambda: _forget(writing))
    threading.Thread(target=_read_signals, args=(reading,), daemon=True).start()


def _forget(writing: int) -> None:
    """Write no signal of a child to the parent's thread."""
    with contextlib.suppress(ValueError):  # another interpreter than the main one
        current = signal.set_wakeup_fd(-1)
        if current not in (-1, writing):
            signal.set_wakeup_fd(current, warn_on_full_buffer=False)


def _read_signals(reading: int) -> None:
    while numbers := os.read(reading, 1):
        if numbers[0] == signal.SIGINT and (start := _find_start()):
            time.sleep(_PATIENCE)
            if _find_start() is start and _is_python_own():
                _end()


def _find_start() -> Optional[FrameType]:
    """Return the call of init_process_group in which the main thread is, if it is in one."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    file, name = _STARTS
    while frame is not None:
        if frame.f_code.co_name == name and frame.f_code.co_filename.endswith(file):
            return frame
        frame = frame.f_back
    return None


def _end() -> None:
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.write("lumi-entry: SIGINT ends this rank, which waits for others to start\n")
        sys.stderr.flush()
    os._exit(_ENDED)


if __name__ == STARTED:
    os.environ.pop(PROCESS, None)
    watch()
