"""Remember which image files matched their digests."""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path

from lumicontainer.build.cache.store import Cache
from lumicontainer.errors import HostError
from lumicontainer.image import digests
from lumicontainer.image.digests import WHOLE, IntegrityResult
from lumicontainer.image.integrity import examined
from lumicontainer.system.files.user_cache import cache_root


def is_whole(image: Path) -> IntegrityResult:
    """Return the result of ``examined``; an unchanged file is read only once.

    The cache identifies a file by its path, inode, size and times. Damage below the file system
    leaves them unchanged: ``verify`` reads all bytes.
    """
    name, store = _name(image), _cache()
    if store and store.has_passed(name):
        return IntegrityResult(WHOLE)
    found = examined(image)
    # The name differs if the file changed while it was read.
    if store and found.state == WHOLE and _name(image) == name:
        with contextlib.suppress(OSError):
            store.note_passed(name)
    return found


def _name(image: Path) -> str:
    info = image.stat()
    place = (os.path.realpath(image), info.st_dev, info.st_ino)
    identity = (digests.FORM, *place, info.st_size, info.st_mtime_ns, info.st_ctime_ns)
    return hashlib.sha256(repr(identity).encode()).hexdigest()


def _cache() -> Cache | None:
    try:
        return Cache(cache_root()).open()
    except HostError:
        return None
