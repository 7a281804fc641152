"""Name the drafts of objects, ``.<object>.<host>.<time>``: locks may not exclude other nodes."""

import os
import time
from pathlib import Path

from lumicontainer.cache.written import HASH
from lumicontainer.system.files.ages import seconds_since

FORM = rf"\.{HASH}\..+"
"""Names of drafts, and of objects that are being removed."""
_OLD = 3 * 86_400
"""Seconds after which a draft of another host is one of a killed build: jobs are shorter."""


def create(folder: Path, name: str) -> Path:
    """Create the draft of an object."""
    draft = folder / f".{name}.{_host()}.{time.time_ns()}"
    draft.mkdir(mode=0o700)
    return draft


def name_of(draft: Path) -> str:
    """Return the name of the object that a draft becomes."""
    return draft.name.split(".")[1]


def born(draft: Path) -> float:
    """Return when a draft was created, in seconds since 1970."""
    return int(draft.suffix[1:]) / 1e9


def may_grow_elsewhere(draft: Path) -> bool:
    """Return whether a draft is of another host, and changed in the last days."""
    try:
        _, _, host, _ = draft.name.split(".")
        return host != _host() and seconds_since(draft.stat().st_mtime) < _OLD
    except (ValueError, OSError):
        return False


def _host() -> str:
    return os.uname().nodename.partition(".")[0]
