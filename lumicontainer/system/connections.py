"""Keep connections to servers between requests: urllib closes each after one."""

import select
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from http.client import HTTPConnection, HTTPResponse
from itertools import chain
from socket import socket
from threading import Lock
from typing import Any, Self

Ended = Callable[[bool], None]
"""Gets, at the end of an answer, whether the connection can serve another request."""
Connect = Callable[..., HTTPConnection]
"""Makes a connection to a host."""
_LONGEST_WAIT = 30.0
"""Seconds after which servers, and routers on the way, may have forgotten a connection."""


class Connections:
    """Hold connections that wait for another request; use it in a ``with`` block.

    Threads may share it.
    """

    def __init__(self) -> None:
        self._waiting: defaultdict[object, list[tuple[HTTPConnection, float]]] = defaultdict(list)
        """By server: connections, and the end of the time for which each waits."""
        self._lock = Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            for pair in chain.from_iterable(self._waiting.values()):
                pair[0].close()
            self._waiting.clear()

    def take(self, server: object) -> HTTPConnection | None:
        """Return a connection to a server that is still open, if there is one."""
        while pair := self._pop(server):
            connection, end = pair
            if time.monotonic() < end and not _has_ended(connection):
                return connection
            connection.close()
        return None

    def _pop(self, server: object) -> tuple[HTTPConnection, float] | None:
        with self._lock:
            waiting = self._waiting[server]
            return waiting.pop() if waiting else None

    def keep(self, server: object, connection: HTTPConnection) -> None:
        """Let a connection wait for another request."""
        with self._lock:
            self._waiting[server].append((connection, time.monotonic() + _LONGEST_WAIT))


def _has_ended(connection: HTTPConnection) -> bool:
    """Return whether a server has closed a connection, or sent what nobody asked for."""
    if connection.sock is None:
        return True
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return bool(poll.poll(0))


class Lease:
    """Stand for the connection that urllib makes for a request: use one that waits, or a new one.

    ``connect`` makes it; ``respond`` reads an answer, and gets ``ended``. No connection waits if
    ``connections`` is None.
    """

    def __init__(
        self,
        connections: Connections | None,
        connect: Connect,
        respond: Callable[..., HTTPResponse],
        host: str,
        **named: Any,
    ) -> None:
        self.sock: socket | None = None
        """Urllib closes what it finds here."""
        self._connections, self._respond, self._timeout = connections, respond, named["timeout"]
        self._connect = partial(connect, host, **named)
        self._server: tuple[object, ...] = (host, "context" in named)
        self._tunnel: dict[str, Any] = {}
        self._connection: HTTPConnection | None = None

    def set_debuglevel(self, level: int) -> None:
        """Say nothing."""

    def set_tunnel(self, host: str, headers: dict[str, str]) -> None:
        """Reach a host by a proxy."""
        self._tunnel = {"host": host, "headers": headers}
        self._server += (host, *sorted(headers.items()))

    def request(
        self, method: str, place: str, body: Any, headers: dict[str, str], **named: Any
    ) -> None:
        """Send a request."""
        if self._connections:
            del headers["Connection"]
        connection = self._take() or self._make()
        self._connection = connection
        connection.response_class = partial(self._respond, ended=self._end)  # type: ignore[assignment]
        connection.request(method, place, body, headers, **named)

    def _take(self) -> HTTPConnection | None:
        connection = self._connections.take(self._server) if self._connections else None
        if connection:
            connection.sock.settimeout(self._timeout)
        return connection

    def _make(self) -> HTTPConnection:
        connection = self._connect()
        if self._tunnel:
            connection.set_tunnel(**self._tunnel)
        return connection

    def getresponse(self) -> HTTPResponse:
        """Return the answer."""
        connection = self._connection
        assert connection
        answer = connection.getresponse()
        if not self._connections:
            self.sock = connection.sock
        return answer

    def close(self) -> None:
        """Close the connection."""
        if self._connection:
            self._connection.close()

    def _end(self, can_serve: bool) -> None:
        if self._connections and self._connection and can_serve:
            self._connections.keep(self._server, self._connection)
        else:
            self.close()
        self._connection = None
