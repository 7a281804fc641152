"""Keep what documents were read into for the next command, as Python keeps modules' bytecode.

    <cache>/documents.json      the sha256 of what follows, and ``parsed.KEPT`` as JSON

It is one file, for each further one costs time where the home lies on Lustre. Where it cannot be
read or written, or is not whole, nothing is said: the next command takes a little longer.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from itertools import islice
from pathlib import Path

from lumicontainer.core.schema.parsed import KEPT
from lumicontainer.errors import HostError
from lumicontainer.system.files.places import cache_root, is_private, write_whole

READING = 1
"""Counts the ways in which documents were read: what was read another way is read anew."""
LIMIT = 400
"""How many documents are kept, those that were asked for last; the shipped ones are 91."""
_recalled = 0


def recall() -> None:
    """Take up what earlier commands read."""
    global _recalled  # noqa: PLW0603 - beside KEPT, which is the process's too
    with contextlib.suppress(HostError, OSError, ValueError):
        path = _file()
        if not KEPT and is_private(path.parent):
            digest, _, body = path.read_bytes().partition(b"\n")
            if _digest(body) == digest:
                KEPT.update(json.loads(body))
                _recalled = len(KEPT)


def keep() -> None:
    """Leave what was read to later commands, if there is more of it than was recalled."""
    if len(KEPT) == _recalled:
        return
    last = dict(islice(reversed(KEPT.items()), LIMIT))
    body = json.dumps(dict(reversed(last.items())), separators=(",", ":")).encode()
    with contextlib.suppress(HostError, OSError):
        path = _file()
        _make(path.parent)
        if is_private(path.parent):
            write_whole(path, _digest(body) + b"\n" + body)


def _make(root: Path) -> None:
    """Make the cache's folder where it is missing, if what is above it is the user's own.

    Root, with a user's HOME (``sudo --preserve-env``), would make one that the user cannot use.
    """
    above = next(each for each in (root, *root.parents) if each.exists())
    if above.stat().st_uid == os.getuid():
        root.mkdir(mode=0o700, parents=True, exist_ok=True)


def _file() -> Path:
    return cache_root() / "documents.json"


def _digest(body: bytes) -> bytes:
    return hashlib.sha256(b"%d %b" % (READING, body)).hexdigest().encode()
