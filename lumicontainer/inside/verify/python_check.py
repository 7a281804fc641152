"""Run a check in Python: ``python_check.py FILE``; or serve: ``python_check.py --serve DOOR``.

An exception of the check has its own exit code. On SIGUSR1 the stacks of all threads are written
to the file that ``stacks`` names, which shows where a check hangs.

A server imports modules once, and forks a process for each check that needs them. DOOR is a socket
of ``forks.Server``, whose messages are documented there.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import sys
import tempfile
import traceback
from collections.abc import Mapping
from typing import Any

BROKEN = 70  # as ``checking.BROKEN``; this file runs without the package
_REPORT = "LUMI_VERIFY_REPORT"  # as ``checking.REPORT``
_LONGEST = 1 << 20  # bytes of a message
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_REAPER = f"{os.path.basename(_PACKAGE)}.verify.reaper"


def main() -> None:
    """Run the file as a program, or serve."""
    faulthandler.enable()
    # The search path needs the folders of the check and of lumi_inside, not this file's, which
    # PYTHONSAFEPATH does not add.
    own = os.path.dirname(os.path.realpath(__file__))
    if sys.path and os.path.realpath(sys.path[0]) == own:
        del sys.path[0]
    sys.path.append(os.path.dirname(_PACKAGE))
    if sys.argv[1] != "--serve":
        run(sys.argv[1])
        return
    door = socket.socket(fileno=int(sys.argv[2]))
    # A third of an import's time would be the search for garbage in what it defines.
    gc.disable()
    importlib.import_module(_REAPER)
    if (path := _served(door)) is not None:
        run(path)
        sys.exit()


def run(path: str) -> None:
    """Run a check as a program."""
    _write_stacks_on_request()
    os.register_at_fork(after_in_child=_write_stacks_on_request)
    path = os.path.abspath(path)
    sys.path.insert(0, os.path.dirname(path))
    sys.argv = [path]
    try:
        runpy.run_path(path, run_name="__main__")
    except Exception:  # noqa: BLE001 - whatever it is, it is a fault of the check
        traceback.print_exc()
        sys.stdout.flush()
        # Threads of a library could keep the process alive.
        os._exit(BROKEN)


def stacks(report: str, pid: int | str) -> str:
    """Return the file for the stacks of a process whose REPORT is ``report``."""
    return f"{report}.stacks-{pid}"


def _write_stacks_on_request() -> None:
    # Each process has its own file. Ranks that mpiexec starts share one output, and faulthandler
    # writes in pieces. If it stays empty, SIGABRT, which ends the process, prints the stacks.
    report = os.environ.get(_REPORT)
    if report:
        with contextlib.suppress(OSError):  # a full disk must not fail a check
            stream = open(stacks(report, os.getpid()), "ab")  # noqa: SIM115 - kept to the end
            faulthandler.register(signal.SIGUSR1, stream, all_threads=True)


def _served(door: socket.socket) -> str | None:
    """Serve until the door is closed; in the process of a check return its file."""
    while True:
        # Nobody waits for the processes that are forked here.
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        text, descriptors, _, _ = socket.recv_fds(door, _LONGEST, 3)
        if not text:
            return None
        if os.fork():
            for each in descriptors:
                os.close(each)
            continue
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        door.close()
        message = json.loads(text)
        if "file" in message:
            return _as_check(message, *descriptors)
        door = _importing(message["modules"], descriptors[0])


def _importing(modules: list[str], descriptor: int) -> socket.socket:
    """Import modules, then report it through the door of the new server."""
    door = socket.socket(fileno=descriptor)
    for each in modules:
        importlib.import_module(each)
    sys.stdout.flush()
    door.send(b"!")
    return door


def _as_check(message: Mapping[str, Any], output: int, lifeline: int, status: int) -> str:
    """Make this process the reaper of a check; return the file in the process of the check."""
    reaper = importlib.import_module(_REAPER)
    reaper.end_with(os.getppid())
    os.write(status, reaper.NUMBER.pack(os.getpid()))
    os.setsid()
    os.setpriority(os.PRIO_PROCESS, 0, message["nice"])
    for standard in (1, 2):
        os.dup2(output, standard)
    os.close(output)
    os.environ.clear()
    os.environ.update(message["environment"])
    tempfile.tempdir = None
    gc.freeze()
    gc.enable()
    path: str = message["file"]
    # The reaper above the server removes the folder.
    reaper.supervise(lifeline, lambda: None, report=status)
    return path


if __name__ == "__main__":
    main()
