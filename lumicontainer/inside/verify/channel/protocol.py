"""What the ranks of a launcher say to each other: rank 0 listens, the others do as it orders.

Both sides begin with a line that holds a number that nobody used before. From these two numbers
and the key of the step (see ``keys``) follows the key of the connection. Every message after them
is a line of JSON behind its HMAC, over its direction, its place in the order of messages, and
itself: what is forged, replayed, reflected, left out or changed is not taken.

    0 → n  lumi-verify 2 NUMBER
    n → 0  lumi-verify 2 NUMBER
    n → 0  {"rank": 3, "node": "1", "host": …, "checks": …}
    0 → n  {"welcome": true} or {"refused": "why"}
    0 → n  {"run": "layer/name", "id": 7}, {"halt": "layer/name", "why": …}, {"end": true}
    n → 0  {"id": 7, "came": {…}}

All that can be ordered is to run one of the image's own checks by its name, or to end it; all that
can be answered is what came of one.
"""

from __future__ import annotations

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
PLACES = 5
"""How many ports are tried: another program may have the first ones."""
_APART = 1999
MOST = 1 << 25
"""Bytes of a line; what came of a check has a megabyte of output at most."""
PROVE = 10
"""Seconds in which rank 0 answers to one who asks to be let in."""
_HELLO = re.compile(b"lumi-verify %d ([0-9a-f]{32})" % PROTOCOL)
_ZERO, _OTHER = b"0 ", b"n "
"""The directions of messages: from rank 0, and to it."""


class GoneError(Exception):
    """Tell why a rank gives no answer any more."""


class ForgedError(ValueError):
    """Tell that a message does not come from one who knows the key, or not in its order."""


def number() -> str:
    """Return a number that nobody used before."""
    return os.urandom(16).hex()


def hello(own: str) -> bytes:
    """Return the first line of each side."""
    return f"lumi-verify {PROTOCOL} {own}\n".encode()


def greeted(line: bytes) -> str:
    """Return the number that a first line holds; raise ValueError where it is another program's."""
    found = _HELLO.fullmatch(line)
    if found is None:
        raise ValueError("another program answers there")
    return found[1].decode()


class Seal:
    """Seal the messages of one side of a connection, and open those of the other.

    ``zero`` and ``other`` are the numbers that rank 0 and the other side began with.
    """

    def __init__(self, key: bytes, zero: str, other: str, *, is_zero: bool) -> None:
        self._key = hmac.digest(key, f"{PROTOCOL} {zero} {other}".encode(), "sha256")
        self._own, self._their = (_ZERO, _OTHER) if is_zero else (_OTHER, _ZERO)
        self._sent = self._opened = 0

    def packed(self, message: Mapping[str, Any]) -> bytes:
        """Return a message as a line."""
        text = json.dumps(message).encode()
        proof = self._proof(self._own, self._sent, text)
        self._sent += 1
        return b"%s %s\n" % (proof, text)

    def unpacked(self, line: bytes) -> dict[str, Any]:
        """Return the message that a line holds; raise ValueError where it is none."""
        proof, _, text = line.partition(b" ")
        if not hmac.compare_digest(proof, self._proof(self._their, self._opened, text)):
            raise ForgedError("it has another key")
        self._opened += 1
        try:
            message = json.loads(text)
        except RecursionError:
            raise ValueError("nested too deep") from None
        if not isinstance(message, dict):
            raise ValueError("no message")
        return message

    def _proof(self, direction: bytes, place: int, text: bytes) -> bytes:
        said = b"%s%d %s" % (direction, place, text)
        return hmac.digest(self._key, said, "sha256").hex().encode()


def check_fields(message: Mapping[str, Any], kinds: Mapping[str, type]) -> None:
    """Raise ValueError where a message lacks a field, or has it in another type."""
    for name, kind in kinds.items():
        # A boolean is an integer, too, but not the one that is wanted.
        if type(message.get(name)) is not kind:
            raise ValueError(f"'{name}' must be of the type {kind.__name__}")


def ports(env: Mapping[str, str], launch: Launch) -> list[int]:
    """Return the ports at which rank 0 may be found, none of them MASTER_PORT."""
    ids = [int(env[name]) for name in launch.ids if is_number(env.get(name, ""))]
    begin = port_of(*ids) if ids else FIRST_PORT
    each = [FIRST_PORT + (begin + _APART * (n + 1)) % PORTS for n in range(PLACES)]
    return [port for port in each if str(port) != env.get("MASTER_PORT")]


def address(env: Mapping[str, str], launch: Launch) -> str:
    """Return a name or address of the node that runs rank 0, as lumi-entry has it."""
    return env.get("MASTER_ADDR") or str(_address(env, launch).value)
