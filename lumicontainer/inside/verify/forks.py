"""Start checks in Python from a process that has imported what they share.

Several checks import PyTorch, which takes 2 s of processor time. A server imports the modules of a
check's ``imports`` once; the process of each check is forked from it, below a reaper of its own,
with the check's environment, session, output and temporary folder.

lumi-verify sends a message to a server: its length, with descriptors attached, then JSON.
``{"modules": [...]}`` with a socket forks another server, which imports these and sends a number
when it can serve. ``{"file": ..., "environment": {...}, "nice": ...}`` with the output, the
lifeline and a pipe for the status forks a check; the answer is the pid of its reaper.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from threading import Lock, Thread
from typing import Any

from ..launch.program import find, interpreter
from . import python_check, reaper
from .python_check import NUMBER
from .resources import Env

_TICK = 0.1


class ServerError(Exception):
    """A server has ended, or its modules cannot be imported: the check is started without it."""


class Forked:
    """A process below a server, with the methods of ``subprocess.Popen`` that are needed."""

    def __init__(self, pid: int, output: int, status: int) -> None:
        self.pid = pid
        self.stdout = open(output, "rb", buffering=0)  # noqa: SIM115 - closed as Popen's is
        self.returncode: int | None = None
        self._status = status

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal; None while the process runs."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float) -> int:
        """Return the exit code, as soon as the process ends; raise ``TimeoutExpired``."""
        if self.returncode is None:
            if not _readable(self._status, timeout):
                raise subprocess.TimeoutExpired("", timeout)
            found = os.read(self._status, NUMBER.size)
            os.close(self._status)
            # Nothing: the server was killed, so nobody knows how the process ends.
            status = NUMBER.unpack(found)[0] if found else int(signal.SIGKILL)
            self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def kill(self) -> None:
        """Kill the process."""
        if self.returncode is None:
            os.kill(self.pid, signal.SIGKILL)


class Server:
    """A process that has imported ``modules``."""

    def __init__(self, door: socket.socket) -> None:
        self._door = door
        self._lock = Lock()

    def extended(self, modules: Sequence[str]) -> Server:
        """Return a server, forked from this one, that imports modules; it is not ready."""
        ours, theirs = socket.socketpair()
        with theirs, self._lock:
            self._send({"modules": list(modules)}, [theirs.fileno()])
        return Server(ours)

    def ready(self, seconds: float, stop: Callable[[], str]) -> bool:
        """Wait until the modules are imported; return False if that fails or takes too long."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not stop():
            if _readable(self._door.fileno(), _TICK):
                return bool(self._door.recv(NUMBER.size))
        return False

    def started(self, file: str, env: Env) -> tuple[Forked, int]:
        """Start a check; return it, and the descriptor whose closing ends it."""
        (read, output), (kept, lifeline), (status, ended) = os.pipe(), os.pipe(), os.pipe()
        given = [output, kept, ended]
        try:
            with self._lock:
                # A server has the nice value of the whole process, and a check that of its thread.
                nice = os.getpriority(os.PRIO_PROCESS, 0)
                self._send({"file": file, "environment": dict(env), "nice": nice}, given)
                (pid,) = NUMBER.unpack(self._door.recv(NUMBER.size, socket.MSG_WAITALL))
        except Exception as error:
            for each in (read, lifeline, status):
                os.close(each)
            raise ServerError(str(error)) from error
        finally:
            for each in given:
                os.close(each)
        return Forked(pid, read, status), lifeline

    def _send(self, message: Mapping[str, Any], descriptors: Sequence[int]) -> None:
        text = json.dumps(message).encode()
        socket.send_fds(self._door, [NUMBER.pack(len(text))], descriptors)
        self._door.sendall(text)


class Servers:
    """The servers of one lumi-verify, each started when a check needs it first."""

    def __init__(self, stop: Callable[[], str]) -> None:
        self._stop = stop
        self._found: dict[tuple[str, ...], Server | None] = {}
        self._locks: dict[tuple[str, ...], Lock] = {}
        self._preparing: dict[tuple[str, ...], Thread] = {}
        self._reaper: subprocess.Popen[bytes] | None = None
        self._lifeline = -1

    def prepare(self, modules: Sequence[str], env: Env, seconds: float) -> None:
        """Begin to start the server that imports ``modules``; ``having`` waits for it."""
        key = tuple(modules)
        if key not in self._preparing:
            self._preparing[key] = Thread(target=self.having, args=(key, env, seconds))
            self._preparing[key].start()

    def having(self, modules: Sequence[str], env: Env, seconds: float) -> Server | None:
        """Return the server that has imported ``modules``, or as many of them as can be imported.

        ``seconds`` is the time limit for one import. None if no server can be started.
        """
        key = tuple(modules)
        with self._locks.setdefault(key, Lock()):
            if key not in self._found:
                try:
                    self._found[key] = self._started(key, env, seconds)
                except OSError:
                    self._found[key] = None
            return self._found[key]

    def _started(self, modules: tuple[str, ...], env: Env, seconds: float) -> Server | None:
        if not modules:
            return self._first(env)
        above = self.having(modules[:-1], env, seconds)
        if above is None:
            return None
        server = above.extended(modules[-1:])
        return server if server.ready(seconds, self._stop) else above

    def _first(self, env: Env) -> Server:
        ours, theirs = socket.socketpair()
        kept, self._lifeline = os.pipe()
        program = os.path.abspath(python_check.__file__)
        command = [find("python3", env) or interpreter(), program, "--serve", str(theirs.fileno())]
        start = [interpreter(), "-I", "-S", "-B", os.path.abspath(reaper.__file__), str(kept)]
        with theirs:
            self._reaper = subprocess.Popen(
                [*start, *command],
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                pass_fds=(kept, theirs.fileno()),
            )
        os.close(kept)
        return Server(ours)

    def close(self) -> None:
        """End the servers and everything that they have started."""
        for thread in self._preparing.values():
            thread.join()
        if self._reaper is not None:
            os.close(self._lifeline)
            self._reaper.wait()
            self._reaper = None


def _readable(descriptor: int, seconds: float) -> bool:
    watched = select.poll()
    watched.register(descriptor, select.POLLIN)
    return bool(watched.poll(seconds * 1000))
