"""Remember which image files were found to be as they were written."""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path

from lumicontainer.build.cache.store import Cache
from lumicontainer.errors import HostError
from lumicontainer.image import digests
from lumicontainer.image.digests import WHOLE, Check
from lumicontainer.image.integrity import examined
from lumicontainer.system.files.user_cache import cache_root


def is_whole(image: Path) -> Check:
    """Return what ``examined`` does; a file that was found whole is not read a second time.

    The cache remembers it by place, size and times. What changes bytes below the file system leaves
    all of these as they are: ``verify`` reads them again.
    """
    name, store = _name(image), _cache()
    if store and store.holds(name):
        return Check(WHOLE)
    found = examined(image)
    # Written to meanwhile: it is another file than the one that was read.
    if store and found.state == WHOLE and _name(image) == name:
        with contextlib.suppress(OSError):
            store.note_held(name)
    return found


def _name(image: Path) -> str:
    info = image.stat()
    place = (os.path.realpath(image), info.st_dev, info.st_ino)
    told = (digests.FORM, *place, info.st_size, info.st_mtime_ns, info.st_ctime_ns)
    return hashlib.sha256(repr(told).encode()).hexdigest()


def _cache() -> Cache | None:
    """Return the cache; None where this host has no place for one."""
    try:
        return Cache(cache_root()).open()
    except HostError:
        return None
