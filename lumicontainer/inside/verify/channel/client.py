"""Connect another rank to rank 0: join, receive orders, send outcomes."""

from __future__ import annotations

import select
import socket
from collections.abc import Mapping
from typing import Any

from . import protocol
from .protocol import ANSWER_SECONDS, MOST, GoneError, Seal

_SEND = 60  # seconds for sending a message, even if rank 0 is busy


class RefusedError(Exception):
    """Report why a server is not rank 0 of this step."""


class Connection:
    """The connection of a rank to rank 0."""

    def __init__(self, stream: socket.socket) -> None:
        self._stream = stream
        self._buffer = bytearray()
        self._poll = select.poll()
        self._poll.register(stream, select.POLLIN)
        self._seal: Seal

    def join(self, key: bytes, me: Mapping[str, Any]) -> None:
        """Exchange the first lines, which determine the key of the connection, and ask to join."""
        own = protocol.number()
        self._stream.sendall(protocol.hello(own))
        zero = protocol.number_of_hello(self._line(ANSWER_SECONDS) or b"")
        self._seal = Seal(key, zero, own, is_zero=False)
        self.send(me)
        try:
            answer = self.next(ANSWER_SECONDS)
        except GoneError:
            raise RefusedError("it closes the connection, as it does if the keys differ") from None
        if answer is None:
            raise RefusedError(f"no answer within {ANSWER_SECONDS} s")
        if answer.get("welcome") is not True:
            raise RefusedError(f"rank 0 answers: {answer.get('refused')}")

    def next(self, seconds: float) -> dict[str, Any] | None:
        """Return the next message, None after ``seconds``.

        Raises GoneError if rank 0 has ended, ValueError for an invalid message.
        """
        line = self._line(seconds)
        return None if line is None else self._seal.unpack(line)

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message of any length."""
        self._stream.sendall(self._seal.pack(message))

    def close(self) -> None:
        """Close the connection."""
        self._stream.close()

    def _line(self, seconds: float) -> bytes | None:
        while b"\n" not in self._buffer:
            if not self._poll.poll(seconds * 1000):
                return None
            try:
                chunk = self._stream.recv(1 << 16)
            except OSError as error:
                raise GoneError(f"the connection broke: {error.strerror}") from None
            if not chunk:
                raise GoneError("it ended")
            self._buffer += chunk
            if len(self._buffer) > MOST:
                raise ValueError("line too long")
        line, _, rest = bytes(self._buffer).partition(b"\n")
        self._buffer = bytearray(rest)
        return line


def join(where: str, port: int, *, key: bytes, me: Mapping[str, Any]) -> Connection:
    """Join rank 0 at an address; ``me`` holds this process' rank, node, host and checks.

    Raises OSError if no one listens there, RefusedError if it is not rank 0 of this step.
    """
    try:
        stream = socket.create_connection((where, port), timeout=ANSWER_SECONDS)
    except UnicodeError:
        raise OSError(f"invalid host name '{where}'") from None
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    stream.settimeout(_SEND)
    connection = Connection(stream)
    try:
        connection.join(key, me)
    except (ValueError, GoneError) as error:
        connection.close()
        raise RefusedError(str(error)) from None
    except BaseException:
        connection.close()
        raise
    return connection
