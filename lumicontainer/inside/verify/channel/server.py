"""Be rank 0 for the other ranks of a launcher: let them in, hand orders out, take answers."""

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

_GREETING = 1 << 12
"""Bytes of a line of one who has not proven anything."""
_HANDSHAKE = 5
"""Seconds in which one who comes has to prove that it is a rank."""
_STRANGERS = 256
"""How many who have not are listened to at the same time, beside as many as there are ranks; for
one more the oldest goes, so that those who only wait keep no rank out."""
_TICK = 0.2
_OWN_FILES = 128
"""Files that rank 0 itself has open at most, beside a connection for each other rank."""


class Guest:
    """Hold what rank 0 knows of one connection: a rank, once it has proven that it is one."""

    def __init__(self, stream: socket.socket) -> None:
        self.stream = stream
        self.number = protocol.number()
        self.seal: Seal | None = None
        self.since = time.monotonic()
        self.rank = -1
        self.node = ""
        self.host = ""
        self.orders: dict[int, Future[Outcome]] = {}
        self._buffer = bytearray()

    def lines(self) -> Iterator[bytes]:
        """Yield the lines that have come; raise GoneError where nothing more will."""
        try:
            chunk = self.stream.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError as error:
            raise GoneError(f"its connection broke: {error.strerror}") from None
        if not chunk:
            raise GoneError("lumi-verify has ended there, or the node has")
        self._buffer += chunk
        whole: list[bytes] = []
        if b"\n" in chunk:
            *whole, rest = bytes(self._buffer).split(b"\n")
            self._buffer = bytearray(rest)
        if len(self._buffer) > (MOST if self.rank > 0 else _GREETING):
            raise GoneError("it sends too long a line")
        yield from whole

    def tell(self, message: Mapping[str, Any]) -> None:
        """Send a message; those of rank 0 are short, and fit in the socket's own memory."""
        assert self.seal is not None
        self.stream.send(self.seal.packed(message))


class Host:
    """Be rank 0 for the others: let them in, hand orders out, take answers."""

    def __init__(self, listener: socket.socket, ranks: int, *, key: bytes, checks: str) -> None:
        self.ranks = ranks
        self.guests: dict[int, Guest] = {}
        self._key = key
        self._checks = checks
        self._listener = listener
        self._changed = threading.Condition()
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)
        self._strangers: dict[Guest, None] = {}
        self._gone: dict[int, str] = {}
        self._hosts: dict[int, str] = {}
        self._count = 0
        self._open = True
        _allow_files(ranks + _STRANGERS + _OWN_FILES)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def await_all(self, seconds: float, stop: Callable[[], str] = str) -> None:
        """Return when every rank is here, ``seconds`` are over, or ``stop`` has a reason."""
        end = time.monotonic() + seconds
        with self._changed:
            while len(self.guests) + len(self._gone) < self.ranks - 1:
                left = end - time.monotonic()
                if left <= 0 or stop():
                    return
                self._changed.wait(min(left, _TICK))

    def why_gone(self, rank: int) -> str:
        """Return why a rank that was here is not any more; "" where it is here or never came."""
        return self._gone.get(rank, "")

    def host_of(self, rank: int) -> str:
        """Return the node of a rank that is here, or was; "" of one that never came."""
        return self._hosts.get(rank, "")

    def order(self, rank: int, check: str) -> Future[Outcome]:
        """Have a rank run a check; what came of it is in the future, or the GoneError."""
        answer: Future[Outcome] = Future()
        with self._changed:
            guest = self.guests.get(rank)
            self._count += 1
            if guest is None:
                answer.set_exception(GoneError(self._gone.get(rank, "it never came")))
                return answer
            guest.orders[self._count] = answer
            self._tell(guest, {"run": check, "id": self._count})
        return answer

    def halt(self, ranks: Sequence[int], check: str, why: str) -> None:
        """Have ranks end a check."""
        with self._changed:
            for guest in [self.guests[rank] for rank in ranks if rank in self.guests]:
                self._tell(guest, {"halt": check, "why": why})

    def busy(self, rank: int) -> bool:
        """Tell whether a rank has not answered an earlier order."""
        guest = self.guests.get(rank)
        return guest is not None and bool(guest.orders)

    def close(self) -> None:
        """Let the others go."""
        with self._changed:
            for guest in list(self.guests.values()):
                self._tell(guest, {"end": True})
            self._open = False
        self._thread.join(2 * _TICK)
        self._listener.close()

    def _tell(self, guest: Guest, message: Mapping[str, Any]) -> None:
        try:
            guest.tell(message)
        except OSError as error:
            self._lose(guest, f"its connection broke: {error.strerror}")

    def _serve(self) -> None:
        while self._open:
            for key, _ in self._selector.select(_TICK):
                with self._changed:
                    if key.data is None:
                        self._accept()
                    else:
                        self._hear(key.data)
                    self._changed.notify_all()
            with self._changed:
                while self._strangers and _is_slow(self._oldest()):
                    self._lose(self._oldest(), "")

    def _oldest(self) -> Guest:
        return next(iter(self._strangers))

    def _accept(self) -> None:
        try:
            stream, _ = self._listener.accept()
        except ConnectionError:  # it is gone already
            return
        except OSError:  # this process has all the files that it may have
            if self._strangers:
                self._lose(self._oldest(), "")
            else:
                time.sleep(_TICK)
            return
        if len(self._strangers) >= self.ranks + _STRANGERS:
            self._lose(self._oldest(), "")
        stream.setblocking(False)
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        guest = Guest(stream)
        self._strangers[guest] = None
        self._selector.register(stream, selectors.EVENT_READ, guest)
        try:
            stream.send(protocol.hello(guest.number))
        except OSError:
            self._lose(guest, "")

    def _hear(self, guest: Guest) -> None:
        try:
            for line in guest.lines():
                if guest.seal is None:
                    other = protocol.greeted(line)
                    guest.seal = Seal(self._key, guest.number, other, is_zero=True)
                elif guest.rank > 0:
                    self._answered(guest, guest.seal.unpacked(line))
                else:
                    self._asked(guest, guest.seal.unpacked(line))
        except GoneError as error:
            self._lose(guest, str(error))
        except OSError as error:
            self._lose(guest, f"its connection broke: {error.strerror}")
        except ForgedError:
            self._lose(guest, "a message came that is not its own")
        except ValueError:
            self._lose(guest, "it does not speak as lumi-verify does")

    def _asked(self, guest: Guest, message: Mapping[str, Any]) -> None:
        """Let a rank of this step in, which has the same checks."""
        protocol.check_fields(message, {"rank": int, "node": str, "host": str, "checks": str})
        rank, why = message["rank"], ""
        if not 0 < rank < self.ranks or rank in self.guests:
            why = f"there is no place for a rank {rank}"
        elif message["checks"] != self._checks:
            why = self._gone[rank] = "its image has other checks than that of rank 0"
        if why:
            guest.tell({"refused": why})
            self._lose(guest, why)
            return
        guest.rank, guest.node, guest.host = rank, message["node"], message["host"]
        self._strangers.pop(guest, None)
        self._gone.pop(rank, None)
        self.guests[rank] = guest
        self._hosts[rank] = guest.host
        guest.tell({"welcome": True})

    @staticmethod
    def _answered(guest: Guest, message: Mapping[str, Any]) -> None:
        protocol.check_fields(message, {"id": int, "came": dict})
        came = from_plain(message["came"])
        came.rank, came.host = guest.rank, guest.host
        answer = guest.orders.pop(message["id"], None)
        if answer is None:
            raise ValueError("no such order")
        answer.set_result(came)

    def _lose(self, guest: Guest, why: str) -> None:
        if guest.stream.fileno() < 0:
            return
        self._selector.unregister(guest.stream)
        guest.stream.close()
        self._strangers.pop(guest, None)
        if self.guests.get(guest.rank) is guest:
            del self.guests[guest.rank]
            self._gone[guest.rank] = why
        for answer in guest.orders.values():
            answer.set_exception(GoneError(why))
        guest.orders.clear()


def _allow_files(count: int) -> None:
    """Let this process have as many files open, as far as it may: 1,024 is a common limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if resource.RLIM_INFINITY != soft < count:
        wanted = count if hard == resource.RLIM_INFINITY else min(count, hard)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _is_slow(guest: Guest) -> bool:
    return time.monotonic() - guest.since > _HANDSHAKE


def listen(where: str, candidates: Sequence[int]) -> socket.socket:
    """Return a socket that listens at the first port that is free; raise LaunchError for none."""
    host = LOOPBACK if where == LOOPBACK else ""
    error: OSError | None = None
    for port in candidates:
        listener = socket.socket()
        try:
            # A step that ended just now may still hold the port, but no program that runs.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, port))
            listener.listen(1024)
        except OSError as refused:
            listener.close()
            error = refused
        else:
            listener.setblocking(False)
            return listener
    raise LaunchError(
        "rank 0 cannot listen for the others",
        where=f"ports {', '.join(map(str, candidates))} of {os.uname().nodename}",
        why=str(error and error.strerror),
        hint="run lumi-verify as another step, which gets other ports",
        code=UNFIT,
    )
