"""The messages between ranks: rank 0 listens and sends orders, the others execute them.

Each side first sends a line with a random number. The two numbers and the key of the step (see
``keys``) give the key of the connection. Every later message is a line of JSON after its HMAC,
over its direction, its sequence number and its text. So forged, replayed, reflected, dropped or
changed messages are rejected.

    0 → n  lumi-verify 2 NUMBER
    n → 0  lumi-verify 2 NUMBER
    n → 0  {"rank": 3, "node": "1", "host": …, "checks": …}
    0 → n  {"welcome": true} or {"refused": "why"}
    0 → n  {"run": "layer/name", "id": 7}, {"halt": "layer/name", "why": …}, {"end": true}
    n → 0  {"id": 7, "outcome": {…}}

Orders can only run or end one of the image's own checks by its name; answers can only hold an
outcome.
"""

import hmac
import json
import os
import re
from collections.abc import Mapping
from typing import Any

from ...environment import is_number
from ...launch.launchers import Launch
from ...launch.rendezvous import FIRST_PORT, PORTS, port_of
from ...launch.rendezvous import address as _address

PROTOCOL = 2
PLACES = 5  # the number of ports to try: other programs may use the first ones
_APART = 1999
MOST = 1 << 25  # bytes of a line; an outcome has at most a megabyte of output
ANSWER_SECONDS = 10  # seconds for rank 0 to answer a rank that joins
_HELLO = re.compile(b"lumi-verify %d ([0-9a-f]{32})" % PROTOCOL)
_ZERO, _OTHER = b"0 ", b"n "  # the directions of messages: from rank 0, and to it


class GoneError(Exception):
    """Report why a rank no longer answers."""


class ForgedError(ValueError):
    """Report a message with a wrong key or sequence number."""


def number() -> str:
    """Return a random number."""
    return os.urandom(16).hex()


def hello(own: str) -> bytes:
    """Return the first line of each side."""
    return f"lumi-verify {PROTOCOL} {own}\n".encode()


def number_of_hello(line: bytes) -> str:
    """Return the number of a first line; raise ValueError if another program sent it."""
    match = _HELLO.fullmatch(line)
    if match is None:
        raise ValueError("another program answers there")
    return match[1].decode()


class Seal:
    """Sign the messages of one side of a connection, and verify the other side's.

    ``zero`` and ``other`` are the random numbers of rank 0 and of the other side.
    """

    def __init__(self, key: bytes, zero: str, other: str, *, is_zero: bool) -> None:
        self._key = hmac.digest(key, f"{PROTOCOL} {zero} {other}".encode(), "sha256")
        self._own, self._their = (_ZERO, _OTHER) if is_zero else (_OTHER, _ZERO)
        self._sent = self._opened = 0

    def pack(self, message: Mapping[str, Any]) -> bytes:
        """Return a message as a line."""
        text = json.dumps(message).encode()
        proof = self._proof(self._own, self._sent, text)
        self._sent += 1
        return b"%s %s\n" % (proof, text)

    def unpack(self, line: bytes) -> dict[str, Any]:
        """Return the message of a line; raise ValueError if it is invalid."""
        proof, _, text = line.partition(b" ")
        if not hmac.compare_digest(proof, self._proof(self._their, self._opened, text)):
            raise ForgedError("wrong key or order")
        self._opened += 1
        try:
            message = json.loads(text)
        except RecursionError:
            raise ValueError("nested too deeply") from None
        if not isinstance(message, dict):
            raise ValueError("not a message")
        return message

    def _proof(self, direction: bytes, place: int, text: bytes) -> bytes:
        signed = b"%s%d %s" % (direction, place, text)
        return hmac.digest(self._key, signed, "sha256").hex().encode()


def check_fields(message: Mapping[str, Any], kinds: Mapping[str, type]) -> None:
    """Raise ValueError if a field is missing or has another type."""
    for name, kind in kinds.items():
        # Not isinstance: a boolean is an integer too.
        if type(message.get(name)) is not kind:
            raise ValueError(f"'{name}' must be of the type {kind.__name__}")


def ports(env: Mapping[str, str], launch: Launch) -> list[int]:
    """Return the ports at which rank 0 may listen, without MASTER_PORT."""
    ids = [int(env[name]) for name in launch.ids if is_number(env.get(name, ""))]
    begin = port_of(*ids) if ids else FIRST_PORT
    each = [FIRST_PORT + (begin + _APART * (n + 1)) % PORTS for n in range(PLACES)]
    return [port for port in each if str(port) != env.get("MASTER_PORT")]


def address(env: Mapping[str, str], launch: Launch) -> str:
    """Return a name or address of the node of rank 0, as lumi-entry does."""
    return env.get("MASTER_ADDR") or str(_address(env, launch).value)
