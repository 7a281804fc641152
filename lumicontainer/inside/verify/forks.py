"""Start checks in Python from a process that has imported what they share.

Several checks import PyTorch, which takes 2 s of processor time. A server imports the modules of a
check's ``imports`` once; the process of each check is forked from it, below its own reaper,
with the check's environment, session, output and temporary folder.

lumi-verify sends messages of JSON to a server, with descriptors attached. ``{"modules": [...]}``
with a socket forks another server, which imports these and sends a byte when it can serve.
``{"file": ..., "environment": {...}, "nice": ...}`` with the output, the lifeline and a pipe forks
a check; its reaper writes its pid to the pipe, and at its end the check's status.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Any

from ..launch.program import find, interpreter
from . import python_check, reaper
from .reaper import NUMBER
from .resources import Env

_TICK = 0.1
_MOST = 100  # servers that start at the same time: each may wait for the one before


class Forked:
    """A process below a server, with the methods of ``subprocess.Popen`` that are needed."""

    def __init__(self, pid: int, output: int, status: int) -> None:
        self.pid = pid
        self.stdout = open(output, "rb", buffering=0)  # noqa: SIM115 - closed as Popen's is
        self.returncode: int | None = None
        self._status = status

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal; None while the process runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float) -> int:
        """Return the exit code, as soon as the process ends; raise ``TimeoutExpired``."""
        if self.returncode is None:
            if not _readable(self._status, timeout):
                raise subprocess.TimeoutExpired("", timeout)
            number = os.read(self._status, NUMBER.size)
            os.close(self._status)
            # Nothing: the reaper was killed.
            status = NUMBER.unpack(number)[0] if number else int(signal.SIGKILL)
            self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def kill(self) -> None:
        """Kill the process."""
        if self.returncode is None:
            os.kill(self.pid, signal.SIGKILL)


class Server:
    """A process that has imported modules; messages to it do not mix (SOCK_SEQPACKET)."""

    def __init__(self, door: socket.socket) -> None:
        self._door = door

    def extended(self, modules: Sequence[str]) -> Server:
        """Return a server, forked from this one, that imports modules; it is not ready."""
        ours, theirs = _doors()
        with theirs:
            self._send({"modules": list(modules)}, [theirs.fileno()])
        return Server(ours)

    def ready(self, seconds: float, stop: Callable[[], str]) -> bool:
        """Wait until the modules are imported; return False if that fails or takes too long."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not stop():
            if _readable(self._door.fileno(), _TICK):
                return bool(self._door.recv(1))
        return False

    def start(self, file: str, env: Env) -> tuple[Forked, int] | None:
        """Start a check; return it, and the descriptor whose closing ends it.

        The result is None if the server has ended.
        """
        (read, output), (kept, lifeline), (status, ended) = os.pipe(), os.pipe(), os.pipe()
        # A server has the nice value of the whole process, and a check has its thread's.
        nice = os.getpriority(os.PRIO_PROCESS, 0)
        passed = [output, kept, ended]
        try:
            with contextlib.ExitStack() as stack:
                for each in passed:
                    stack.callback(os.close, each)
                self._send({"file": file, "environment": dict(env), "nice": nice}, passed)
            (pid,) = NUMBER.unpack(os.read(status, NUMBER.size))
        except (OSError, struct.error):
            for each in (read, lifeline, status):
                os.close(each)
            return None
        return Forked(pid, read, status), lifeline

    def _send(self, message: Mapping[str, Any], descriptors: Sequence[int]) -> None:
        socket.send_fds(self._door, [json.dumps(message).encode()], descriptors)


class Servers:
    """The servers of one lumi-verify, each started when a check needs it first.

    What forked checks write belongs below ``folder``, which is set with the first server. Their
    reapers may be killed with the servers; the reaper above all removes it if lumi-verify dies.
    """

    def __init__(self, env: Env, place: str, stop: Callable[[], str]) -> None:
        """Let ``folder`` be in ``place``."""
        self.folder = ""
        self._env, self._place, self._stop = env, place, stop
        self._servers: dict[tuple[str, ...], Future[Server | None]] = {}
        self._lock = Lock()
        self._pool = ThreadPoolExecutor(_MOST)
        self._reaper: subprocess.Popen[bytes] | None = None
        self._lifeline = -1

    def having(self, modules: Sequence[str], seconds: float) -> Future[Server | None]:
        """Start the server that imports ``modules``, or as many of them as can be imported.

        ``seconds`` is the time limit for one import. The result is None if no server can be
        started.
        """
        key = tuple(modules)
        with self._lock:
            if key not in self._servers:
                self._servers[key] = self._pool.submit(self._start_server, key, seconds)
        return self._servers[key]

    def _start_server(self, modules: tuple[str, ...], seconds: float) -> Server | None:
        try:
            if not modules:
                return self._first()
            above = self.having(modules[:-1], seconds).result()
            server = above.extended(modules[-1:]) if above else None
        except OSError:
            return None
        return server if server and server.ready(seconds, self._stop) else above

    def _first(self) -> Server:
        self.folder = tempfile.mkdtemp(prefix="lumi-verify-", dir=self._place)
        ours, theirs = _doors()
        kept, self._lifeline = os.pipe()
        program = os.path.abspath(python_check.__file__)
        python = find("python3", self._env) or interpreter()
        command = [python, program, "--serve", str(theirs.fileno())]
        above = [interpreter(), "-ISB", os.path.abspath(reaper.__file__), str(kept)]
        with theirs:
            self._reaper = subprocess.Popen(
                [*above, self.folder, *command],
                env=dict(self._env),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                pass_fds=(kept, theirs.fileno()),
            )
        os.close(kept)
        return Server(ours)

    def close(self) -> None:
        """End the servers and everything that they have started; remove the folder."""
        self._pool.shutdown()
        if self._reaper is not None:
            os.close(self._lifeline)
            self._reaper.wait()
            self._reaper = None
        shutil.rmtree(self.folder, ignore_errors=True)


def _doors() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def _readable(descriptor: int, seconds: float) -> bool:
    watched = select.poll()
    watched.register(descriptor, select.POLLIN)
    return bool(watched.poll(seconds * 1000))
