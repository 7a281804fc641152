"""How the ranks of a launcher meet: rank 0 listens, the others join it and do as it orders.

Messages are lines of JSON. All that can be ordered is to run one of the image's own checks by its
name, or to end it; all that can be answered is what came of one. Both sides prove that they know
what the launcher told the processes of this step (a secret where it tells one, as HPE's does).

    0 → n  {"lumi-verify": 1, "nonce": …}
    n → 0  {"rank": 3, "node": "1", "host": …, "checks": …, "nonce": …, "proof": …}
    0 → n  {"proof": …} or {"refused": "why"}
    0 → n  {"run": "layer/name", "id": 7}, {"halt": "layer/name", "why": …}, {"end": true}
    n → 0  {"id": 7, "came": {…}}
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import select
import selectors
import socket
import threading
import time
from concurrent.futures import Future

from ..errors import UNFIT, LaunchError
from ..rendezvous import FIRST_PORT, LOOPBACK, PORTS, port_of
from ..rendezvous import address as _address
from ..setting import is_number
from .outcome import Outcome, from_plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from ..launchers import Launch

PROTOCOL = 1
SECRETS = (
    *("LUMI_VERIFY_SECRET", "PMI_SHARED_SECRET", "SLURM_JOB_ID", "SLURM_STEP_ID"),
    *("SLURM_STEP_LAUNCHER_PORT", "SLURM_SRUN_COMM_PORT", "PMI_JOBID", "MASTER_PORT"),
)
"""What a launcher tells the processes of one step, and none of another; the first two only them."""
PLACES = 5
"""How many ports are tried: another program may have the first ones."""
_APART = 1999
_MOST = 1 << 25
"""Bytes of a line; what came of a check has a megabyte of output at most."""
_GREETING = 1 << 12
"""Bytes of a line of one who has not proven anything."""
_STRANGERS = 64
"""How many of these are listened to at the same time, beside as many as there are ranks."""
_PROVE = 10
"""Seconds in which one who comes has to prove who it is."""
_SEND = 60
"""Seconds that a megabyte may take, also to a rank 0 that is busy."""
_TICK = 0.2


class GoneError(Exception):
    """Tell why a rank gives no answer any more."""


class RefusedError(Exception):
    """Tell why a place of meeting is not the right one."""


def secret(env: Mapping[str, str]) -> bytes:
    """Return what the processes of one step share."""
    told = "\0".join(f"{name}={env.get(name, '')}" for name in SECRETS)
    return hashlib.sha256(told.encode("utf-8", "surrogateescape")).digest()


def ports(env: Mapping[str, str], launch: Launch) -> list[int]:
    """Return the ports at which rank 0 may be found, none of them MASTER_PORT."""
    ids = [int(env[name]) for name in launch.ids if is_number(env.get(name, ""))]
    begin = port_of(*ids) if ids else FIRST_PORT
    each = [FIRST_PORT + (begin + _APART * (n + 1)) % PORTS for n in range(PLACES)]
    return [port for port in each if str(port) != env.get("MASTER_PORT")]


def address(env: Mapping[str, str], launch: Launch) -> str:
    """Return a name or address of the node that runs rank 0, as lumi-entry has it."""
    return env.get("MASTER_ADDR") or str(_address(env, launch).value)


def proof(key: bytes, *words: object) -> str:
    """Return what only one who knows ``key`` can say of ``words``."""
    return hmac.new(key, json.dumps(words).encode(), "sha256").hexdigest()


def packed(message: Mapping[str, Any]) -> bytes:
    """Return a message as a line."""
    return json.dumps(message).encode() + b"\n"


def unpacked(line: bytes) -> dict[str, Any]:
    """Return the message that a line holds; raise ValueError where it is none."""
    message = json.loads(line)
    if not isinstance(message, dict):
        raise ValueError("no message")
    return message


class Guest:
    """Hold what rank 0 knows of one connection: a rank, once it has proven that it is one."""

    def __init__(self, stream: socket.socket) -> None:
        self.stream = stream
        self.nonce = os.urandom(16).hex()
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
        if len(self._buffer) > (_MOST if self.rank > 0 else _GREETING):
            raise GoneError("it sends too long a line")
        yield from whole

    def tell(self, message: Mapping[str, Any]) -> None:
        """Send a message; those of rank 0 are short, and fit in the socket's own memory."""
        self.stream.send(packed(message))


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
        self._strangers: set[Guest] = set()
        self._gone: dict[int, str] = {}
        self._hosts: dict[int, str] = {}
        self._count = 0
        self._open = True
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
        return guest is not None and any(not each.done() for each in guest.orders.values())

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
                for guest in [each for each in self._strangers if _is_slow(each)]:
                    self._lose(guest, "")

    def _accept(self) -> None:
        try:
            stream, _ = self._listener.accept()
        except OSError:  # it is gone already
            return
        if len(self._strangers) >= self.ranks + _STRANGERS:
            stream.close()
            return
        stream.setblocking(False)
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        guest = Guest(stream)
        self._strangers.add(guest)
        self._selector.register(stream, selectors.EVENT_READ, guest)
        self._tell(guest, {"lumi-verify": PROTOCOL, "nonce": guest.nonce})

    def _hear(self, guest: Guest) -> None:
        try:
            for line in guest.lines():
                if guest.rank > 0:
                    self._answered(guest, unpacked(line))
                else:
                    self._greeted(guest, unpacked(line))
        except GoneError as error:
            self._lose(guest, str(error))
        except OSError as error:
            self._lose(guest, f"its connection broke: {error.strerror}")
        except (ValueError, KeyError, TypeError):
            self._lose(guest, "it does not speak as lumi-verify does")

    def _greeted(self, guest: Guest, message: Mapping[str, Any]) -> None:
        """Let a rank in that proves to be one of this step, with the same checks."""
        rank, node, host = message["rank"], str(message["node"]), str(message["host"])
        checks, nonce = message["checks"], message["nonce"]
        wanted = proof(self._key, guest.nonce, rank, node, host, checks)
        if not hmac.compare_digest(wanted, str(message["proof"])):
            why = "it is not of this step"
        elif checks != self._checks:
            why = self._gone[rank] = "its image has other checks than that of rank 0"
        elif not (isinstance(rank, int) and 0 < rank < self.ranks) or rank in self.guests:
            why = f"there is no place for a rank {rank}"
        else:
            guest.rank, guest.node, guest.host = rank, node, host
            self._strangers.discard(guest)
            self._gone.pop(rank, None)
            self.guests[rank] = guest
            self._hosts[rank] = host
            guest.tell({"proof": proof(self._key, nonce)})
            return
        guest.tell({"refused": why})
        self._lose(guest, why)

    @staticmethod
    def _answered(guest: Guest, message: Mapping[str, Any]) -> None:
        answer = guest.orders.pop(message["id"])
        came = from_plain(message["came"])
        came.rank, came.host = guest.rank, guest.host
        answer.set_result(came)

    def _lose(self, guest: Guest, why: str) -> None:
        if guest.stream.fileno() < 0:
            return
        self._selector.unregister(guest.stream)
        guest.stream.close()
        self._strangers.discard(guest)
        if self.guests.get(guest.rank) is guest:
            del self.guests[guest.rank]
            self._gone[guest.rank] = why
        for answer in guest.orders.values():
            answer.set_exception(GoneError(why))
        guest.orders.clear()


def _is_slow(guest: Guest) -> bool:
    return time.monotonic() - guest.since > _PROVE


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
        mend="run lumi-verify as another step, which gets other ports",
        code=UNFIT,
    )


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
            if len(self._buffer) > _MOST:
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
    stream = socket.create_connection((where, port), timeout=_PROVE)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    stream.settimeout(_SEND)
    door = Door(stream)
    try:
        hello = door.next(_PROVE) or {}
        if hello.get("lumi-verify") != PROTOCOL:
            raise RefusedError("another program answers there")
        nonce = os.urandom(16).hex()
        said = [me[name] for name in ("rank", "node", "host", "checks")]
        door.tell({**me, "nonce": nonce, "proof": proof(key, hello.get("nonce"), *said)})
        answer = door.next(_PROVE) or {}
        if "refused" in answer:
            raise RefusedError(f"rank 0 answers: {answer['refused']}")
        if not hmac.compare_digest(proof(key, nonce), str(answer.get("proof"))):
            raise RefusedError("another step's rank 0 answers there")
    except (RefusedError, ValueError, GoneError) as error:
        door.close()
        raise error if isinstance(error, RefusedError) else RefusedError(str(error)) from None
    except BaseException:
        door.close()
        raise
    return door
