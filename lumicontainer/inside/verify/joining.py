"""Be another rank than 0: join it, take its orders, give answers."""

from __future__ import annotations

import os
import select
import socket

from .protocol import MOST, PROTOCOL, PROVE, GoneError, is_same, packed, proof, unpacked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_SEND = 60
"""Seconds that a megabyte may take, also to a rank 0 that is busy."""


class RefusedError(Exception):
    """Tell why a place of meeting is not the right one."""


class Door:
    """Be a rank that has joined rank 0: take its orders, give answers."""

    def __init__(self, stream: socket.socket) -> None:
        self._stream = stream
        self._buffer = bytearray()
        self._poll = select.poll()
        self._poll.register(stream, select.POLLIN)

    def next(self, seconds: float) -> dict[str, Any] | None:
        """Return the next message, None where none comes in ``seconds``.

        Raises GoneError where rank 0 has ended, ValueError where it does not speak as it should.
        """
        while b"\n" not in self._buffer:
            if not self._poll.poll(seconds * 1000):
                return None
            try:
                chunk = self._stream.recv(1 << 16)
            except OSError as error:
                raise GoneError(f"the connection to it broke: {error.strerror}") from None
            if not chunk:
                raise GoneError("it ended")
            self._buffer += chunk
            if len(self._buffer) > MOST:
                raise ValueError("too long a line")
        line, _, rest = bytes(self._buffer).partition(b"\n")
        self._buffer = bytearray(rest)
        return unpacked(line)

    def tell(self, message: Mapping[str, Any]) -> None:
        """Send a message, however long it is."""
        self._stream.sendall(packed(message))

    def close(self) -> None:
        """Leave."""
        self._stream.close()


def join(where: str, port: int, *, key: bytes, me: Mapping[str, Any]) -> Door:
    """Join rank 0 at an address; ``me`` has this process' rank, node, host and checks.

    Raises OSError where nobody is there, RefusedError where it is not rank 0 of this step.
    """
    try:
        stream = socket.create_connection((where, port), timeout=PROVE)
    except UnicodeError:
        raise OSError(f"'{where}' is no name of a host") from None
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    stream.settimeout(_SEND)
    door = Door(stream)
    try:
        hello = door.next(PROVE) or {}
        if hello.get("lumi-verify") != PROTOCOL:
            raise RefusedError("another program answers there")
        nonce = os.urandom(16).hex()
        said = [me[name] for name in ("rank", "node", "host", "checks")]
        door.tell({**me, "nonce": nonce, "proof": proof(key, hello.get("nonce"), *said)})
        answer = door.next(PROVE) or {}
        if "refused" in answer:
            raise RefusedError(f"rank 0 answers: {answer['refused']}")
        if not is_same(answer.get("proof"), proof(key, nonce)):
            raise RefusedError("another step's rank 0 answers there")
    except (RefusedError, ValueError, GoneError) as error:
        door.close()
        raise error if isinstance(error, RefusedError) else RefusedError(str(error)) from None
    except BaseException:
        door.close()
        raise
    return door
