"""Connect the stdin, stdout and stderr of this program to a container."""

import contextlib
import os
import shutil
import signal
import socket
import sys
import termios
import threading
import tty
from collections.abc import Iterator
from typing import Any

from lumicontainer.host.docker.daemon import read_field

_ATTACH = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}


def follow(client: Any, container: Any, *, content: bytes) -> int:
    """Start a container and copy its output until it ends; return its exit status.

    On a terminal, its stdin is what is typed; else it gets the bytes ``content``.
    """
    from docker.utils.socket import STDERR, frames_iter  # noqa: PLC0415 - not always installed

    stream = container.attach_socket(params=_ATTACH)
    own: socket.socket = getattr(stream, "_sock", stream)
    container.start()
    typed = sys.stdin.isatty()
    threading.Thread(target=_type if typed else _send, args=(own, content), daemon=True).start()
    with _raw(container) if typed else contextlib.nullcontext():
        for number, data in frames_iter(stream, typed):
            target = sys.stderr.buffer if number == STDERR else sys.stdout.buffer
            target.write(data)
            target.flush()
    return read_field(client.api.wait(container.id, timeout=None), "StatusCode", int)


def _send(own: socket.socket, content: bytes) -> None:
    with contextlib.suppress(OSError):  # The program may end before it has read all.
        own.sendall(content)
        own.shutdown(socket.SHUT_WR)


def _type(own: socket.socket, _: bytes) -> None:
    with contextlib.suppress(OSError):
        while data := os.read(sys.stdin.fileno(), 1024):
            own.sendall(data)


@contextlib.contextmanager
def _raw(container: Any) -> Iterator[None]:
    """Pass each key to the container, and the size of the terminal."""

    def resize(*_: object) -> None:
        columns, lines = shutil.get_terminal_size()
        container.resize(height=lines, width=columns)

    before = termios.tcgetattr(sys.stdin)
    signal.signal(signal.SIGWINCH, resize)
    resize()
    try:
        tty.setraw(sys.stdin)
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
