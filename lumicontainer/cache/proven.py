"""Remember which image files matched their digests."""

import contextlib
import hashlib
from pathlib import Path

from lumicontainer.cache.store import Cache
from lumicontainer.errors import HostError
from lumicontainer.image import digests
from lumicontainer.image.digests import WHOLE, IntegrityResult
from lumicontainer.image.integrity import check_image
from lumicontainer.system.files.regular import file_state
from lumicontainer.system.files.user_cache import cache_root


def is_whole(image: Path) -> IntegrityResult:
    """Return the result of ``checked_image``; an unchanged file is read only once.

    Damage below the file system is not seen: ``verify`` reads all bytes.
    """
    name, store = _name(image), None
    with contextlib.suppress(HostError):
        store = Cache(cache_root()).open()
    if store and store.has_passed(name):
        return IntegrityResult(WHOLE)
    result = check_image(image)
    # The name differs if the file changed while it was read.
    if store and result.state == WHOLE and _name(image) == name:
        with contextlib.suppress(OSError):
            store.note_passed(name)
    return result


def _name(image: Path) -> str:
    return hashlib.sha256(repr((digests.FORM, file_state(image))).encode()).hexdigest()
