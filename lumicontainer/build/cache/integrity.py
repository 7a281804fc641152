"""Whether an image is as it was written, remembered for a file until that changes."""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path

from lumicontainer.build.cache.store import Cache
from lumicontainer.errors import HostError, Problem
from lumicontainer.image import digests
from lumicontainer.image.digests import CHANGED, NOT_RECORDED, WHOLE, Check
from lumicontainer.image.sif import no_image
from lumicontainer.system import units
from lumicontainer.system.files.user_cache import cache_root


def examined(image: Path) -> Check:
    """Read every byte of an image; raise ``InputError`` where it cannot be read."""
    try:
        return digests.check(image)
    except OSError as error:
        raise no_image(image, error.strerror or str(error)) from error


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


def problem(image: Path, found: Check, *, level: str = "error") -> Problem:
    """Return the message for an image that is not proven to be as it was written."""
    if found.state == NOT_RECORDED:
        return Problem(
            "the image has no record of its digests",
            str(image),
            why="a plain engine or an earlier lumicontainer wrote it: a changed byte is not found",
            hint="build it with lumicontainer build",
            level=level,
        )
    assert found.state == CHANGED
    return Problem(
        "the image is not as it was written",
        str(image),
        why="\n".join(found.problems),
        hint="build it again, or copy it again from where it is whole",
        level=level,
    )


def told(found: Check) -> str:
    """Return in words what is proven of an image that is whole."""
    text = f"{units.size(found.proven)} in {len(found.parts)} parts are as they were written"
    if not found.appended:
        return text
    later = ", ".join(part.where for part in found.appended)
    return (
        f"{text}; appended since, and not proven: {later} "
        "(singularity verify proves what is signed)"
    )
