"""Serve the other ranks from rank 0: accept them, send orders, receive outcomes."""

from __future__ import annotations

import contextlib
import os
import resource
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from ...errors import UNFIT, LaunchError
from ...launch.rendezvous import LOOPBACK
from ..outcome import Outcome, from_plain
from . import protocol
from .protocol import MOST, ForgedError, GoneError, Seal

_GREETING = 1 << 12  # bytes of a line before authentication
_HANDSHAKE = 60  # seconds for a new connection to authenticate
# Connections without authentication, in addition to the number of ranks. For one more the oldest is
# closed, so that idle connections do not block ranks.
_MOST_UNAUTHENTICATED = 256
_TICK = 0.2
_OWN_FILES = 128  # the most open files of rank 0, in addition to the connections


class _Peer:
    """One connection: of a rank, once it is authenticated."""

    def __init__(self, stream: socket.socket) -> None:
        self.stream = stream
        self.number = protocol.number()
        self.seal: Seal | None = None
        self.since = time.monotonic()
        self.rank, self.node, self.host = -1, "", ""
        self.orders: dict[int, Future[Outcome]] = {}
        self._buffer = bytearray()

    def lines(self) -> Iterator[bytes]:
        """Yield the received lines; raise GoneError if the connection is closed."""
        try:
            chunk = self.stream.recv(1 << 16)
        except BlockingIOError:
            return
        if not chunk:
            raise GoneError("lumi-verify or its node has ended")
        *whole, rest = chunk.split(b"\n")
        if whole:
            whole[0] = bytes(self._buffer) + whole[0]
            self._buffer.clear()
        self._buffer += rest
        if len(self._buffer) > (MOST if self.rank > 0 else _GREETING):
            raise GoneError("its line is too long")
        yield from whole

    def send(self, message: Mapping[str, Any]) -> None:
        # Messages of rank 0 are short, and fit into the socket's buffer.
        assert self.seal is not None
        self.stream.send(self.seal.pack(message))


class Server:
    """Serve the other ranks: accept them, send orders, receive outcomes."""

    def __init__(self, listener: socket.socket, ranks: int, *, key: bytes, checks: str) -> None:
        self.ranks = ranks
        self.peers: dict[int, _Peer] = {}
        self._key = key
        self._checks = checks
        self._listener = listener
        self._changed = threading.Condition()
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)
        self._unauthenticated: dict[_Peer, None] = {}
        self.gone: dict[int, str] = {}  # why each rank that is missing now has left
        self.hosts: dict[int, str] = {}  # the node of each rank that has joined
        self._count = 0
        self._open = True
        _allow_files(ranks + _MOST_UNAUTHENTICATED + _OWN_FILES)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def await_all(self, seconds: float, stop: Callable[[], str] = str) -> None:
        """Wait for every rank, for ``seconds``, or until ``stop`` returns a reason."""
        end = time.monotonic() + seconds
        with self._changed:
            while len(self.peers) + len(self.gone) < self.ranks - 1:
                left = end - time.monotonic()
                if left <= 0 or stop():
                    return
                self._changed.wait(min(left, _TICK))

    def order(self, rank: int, check: str) -> Future[Outcome]:
        """Let a rank run a check; the future gets the outcome or a GoneError."""
        answer: Future[Outcome] = Future()
        with self._changed:
            peer = self.peers.get(rank)
            self._count += 1
            if peer is None:
                answer.set_exception(GoneError(self.gone.get(rank, "it never joined")))
                return answer
            peer.orders[self._count] = answer
            self._send(peer, {"run": check, "id": self._count})
        return answer

    def halt(self, ranks: Sequence[int], check: str, why: str) -> None:
        """End a check on some ranks."""
        with self._changed:
            for peer in [self.peers[rank] for rank in ranks if rank in self.peers]:
                self._send(peer, {"halt": check, "why": why})

    def busy(self, rank: int) -> bool:
        """Return whether a rank has not answered an earlier order."""
        peer = self.peers.get(rank)
        return peer is not None and bool(peer.orders)

    def close(self) -> None:
        """End the other ranks."""
        with self._changed:
            for peer in list(self.peers.values()):
                self._send(peer, {"end": True})
            self._open = False
        self._thread.join(2 * _TICK)
        self._listener.close()

    def _send(self, peer: _Peer, message: Mapping[str, Any]) -> None:
        try:
            peer.send(message)
        except OSError as error:
            self._drop(peer, f"its connection broke: {error.strerror}")

    def _serve(self) -> None:
        while self._open:
            for key, _ in self._selector.select(_TICK):
                with self._changed:
                    if key.data is None:
                        self._accept()
                    else:
                        self._receive(key.data)
                    self._changed.notify_all()
            with self._changed:
                now = time.monotonic()
                while self._unauthenticated and now - self._oldest().since > _HANDSHAKE:
                    self._drop(self._oldest(), "")

    def _oldest(self) -> _Peer:
        return next(iter(self._unauthenticated))

    def _accept(self) -> None:
        try:
            stream, _ = self._listener.accept()
        except ConnectionError:  # the client has left
            return
        except OSError:  # too many open files
            if self._unauthenticated:
                self._drop(self._oldest(), "")
            else:
                time.sleep(_TICK)
            return
        if len(self._unauthenticated) >= self.ranks + _MOST_UNAUTHENTICATED:
            self._drop(self._oldest(), "")
        stream.setblocking(False)
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        peer = _Peer(stream)
        self._unauthenticated[peer] = None
        self._selector.register(stream, selectors.EVENT_READ, peer)
        try:
            stream.send(protocol.hello(peer.number))
        except OSError:
            self._drop(peer, "")

    def _receive(self, peer: _Peer) -> None:
        try:
            for line in peer.lines():
                if peer.seal is None:
                    other = protocol.number_of_hello(line)
                    peer.seal = Seal(self._key, peer.number, other, is_zero=True)
                elif peer.rank > 0:
                    self._take_outcome(peer, peer.seal.unpack(line))
                else:
                    self._admit(peer, peer.seal.unpack(line))
        except GoneError as error:
            self._drop(peer, str(error))
        except OSError as error:
            self._drop(peer, f"its connection broke: {error.strerror}")
        except ForgedError:
            self._drop(peer, "a message has an invalid signature")
        except ValueError:
            self._drop(peer, "a message is invalid")

    def _admit(self, peer: _Peer, message: Mapping[str, Any]) -> None:
        protocol.check_fields(message, {"rank": int, "node": str, "host": str, "checks": str})
        rank, why = message["rank"], ""
        if not 0 < rank < self.ranks or rank in self.peers:
            why = f"rank {rank} has joined, or does not exist"
        elif message["checks"] != self._checks:
            why = self.gone[rank] = "its image has other checks than rank 0's"
        if why:
            peer.send({"refused": why})
            self._drop(peer, why)
            return
        peer.rank, peer.node, peer.host = rank, message["node"], message["host"]
        self._unauthenticated.pop(peer, None)
        self.gone.pop(rank, None)
        self.peers[rank] = peer
        self.hosts[rank] = peer.host
        peer.send({"welcome": True})

    @staticmethod
    def _take_outcome(peer: _Peer, message: Mapping[str, Any]) -> None:
        protocol.check_fields(message, {"id": int, "outcome": dict})
        outcome = from_plain(message["outcome"])
        outcome.rank, outcome.host = peer.rank, peer.host
        answer = peer.orders.pop(message["id"], None)
        if answer is None:
            raise ValueError("no such order")
        answer.set_result(outcome)

    def _drop(self, peer: _Peer, why: str) -> None:
        if peer.stream.fileno() < 0:
            return
        self._selector.unregister(peer.stream)
        peer.stream.close()
        self._unauthenticated.pop(peer, None)
        if self.peers.get(peer.rank) is peer:
            del self.peers[peer.rank]
            self.gone[peer.rank] = why
        for answer in peer.orders.values():
            answer.set_exception(GoneError(why))
        peer.orders.clear()


def _allow_files(count: int) -> None:
    """Raise the limit of open files, which is often 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if resource.RLIM_INFINITY != soft < count:
        limit = count if hard == resource.RLIM_INFINITY else min(count, hard)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def listen(where: str, candidates: Sequence[int]) -> socket.socket:
    """Return a socket that listens at the first free port; raise LaunchError without one."""
    host = LOOPBACK if where == LOOPBACK else ""
    why = ""
    for port in candidates:
        try:
            listener = socket.create_server((host, port), backlog=1024)
        except OSError as error:
            why = error.strerror or ""
        else:
            listener.setblocking(False)
            return listener
    where = f"ports {', '.join(map(str, candidates))} of {os.uname().nodename}"
    hint = "run lumi-verify in another step, which has other ports"
    raise LaunchError("rank 0 cannot listen for the others", where, why, hint, code=UNFIT)
