"""Run a check in Python: ``python_check.py FILE``; or serve: ``python_check.py --serve DOOR``.

An exception of the check has its own exit code. SIGUSR1 prints the stacks of all threads, which
shows where a check hangs.

A server imports modules once, and forks a process for each check that needs them. DOOR is a socket
of ``forks.Server``, whose messages are documented there.
"""

from __future__ import annotations

import faulthandler
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import struct
import sys
import tempfile
import traceback
from collections.abc import Mapping
from typing import Any

BROKEN = 70  # as ``checking.BROKEN``; this file runs without the package
# The length of a message, the pid of a process, or the status of waitpid(2).
NUMBER = struct.Struct("=q")
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_REAPER = f"{os.path.basename(_PACKAGE)}.verify.reaper"


def main() -> None:
    """Run the file as a program, or serve."""
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    # The search path needs the folder of the check and that of lumi_inside, not this file's.
    sys.path.pop(0)
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


def _served(door: socket.socket) -> str | None:
    """Serve until the door is closed; in the process of a check return its file."""
    statuses: dict[int, int] = {}
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    watched = select.poll()
    watched.register(door, select.POLLIN)
    watched.register(woken, select.POLLIN)
    while True:
        ready = [each for each, _ in watched.poll()]
        if woken in ready:
            os.read(woken, 4096)
            _report_ended(statuses)
        if door.fileno() not in ready:
            continue
        message, given = _received(door)
        if message is None:
            return None
        child = os.fork()
        if not child:
            signal.set_wakeup_fd(-1)
            for each in (*statuses.values(), woken, wake, door.detach()):
                os.close(each)
            if "modules" not in message:
                return _as_check(message, *given)
            return _served(_importing(message["modules"], given[0]))
        if "modules" not in message:
            statuses[child] = given.pop()
            door.sendall(NUMBER.pack(child))
        for each in given:
            os.close(each)


def _importing(modules: list[str], descriptor: int) -> socket.socket:
    """Import modules, then report it through the door of the new server."""
    door = socket.socket(fileno=descriptor)
    for each in modules:
        importlib.import_module(each)
    sys.stdout.flush()
    door.sendall(NUMBER.pack(0))
    return door


def _received(door: socket.socket) -> tuple[Mapping[str, Any] | None, list[int]]:
    head, given, _, _ = socket.recv_fds(door, NUMBER.size, 3)
    if len(head) < NUMBER.size:
        return None, given
    (length,) = NUMBER.unpack(head)
    text = b""
    while len(text) < length:
        part = door.recv(length - len(text))
        if not part:
            return None, given
        text += part
    return json.loads(text), given


def _report_ended(statuses: dict[int, int]) -> None:
    while True:
        try:
            child, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not child:
            return
        if child in statuses:
            descriptor = statuses.pop(child)
            try:
                os.write(descriptor, NUMBER.pack(status))
            except BrokenPipeError:  # lumi-verify waits no longer
                continue
            finally:
                os.close(descriptor)


def _as_check(message: Mapping[str, Any], output: int, lifeline: int, status: int) -> str:
    """Make this process the reaper of a check; return the file in the process of the check."""
    reaper = importlib.import_module(_REAPER)
    os.close(status)
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
    reaper.supervise(lifeline, lambda: None)
    return path


if __name__ == "__main__":
    main()
