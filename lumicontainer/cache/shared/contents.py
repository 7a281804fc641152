"""List and remove the objects of a shared cache."""

import contextlib
import os
import shutil
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from lumicontainer.cache.shared.shared import SharedCache
from lumicontainer.errors import Problem
from lumicontainer.system.files.trust import user_name


class Published(NamedTuple):
    """Hold the facts of an object, which may be damaged or of a publisher who is not trusted."""

    folder: Path
    shown: str
    """The name of its step; of an object that a build would not take, the start of its name."""
    kind: str
    publisher: str
    own: bool
    """Whether this user published it."""
    size: int
    used: float
    """The time of its publication, in seconds since 1970."""


def published(shared: SharedCache) -> Iterator[Published]:
    """Yield every object, trusted or not."""
    for name in shared.names():
        folder, entry = shared.root / name, shared.entry(name)
        with contextlib.suppress(FileNotFoundError):
            info = folder.lstat()
            shown, kind = (entry.shown, entry.kind) if entry else (name[:12], "")
            own, owner = info.st_uid == os.geteuid(), user_name(info.st_uid)
            yield Published(folder, shown, kind, owner, own, _size(folder), info.st_mtime)


def _size(folder: Path) -> int:
    try:
        return sum(path.lstat().st_size for path in folder.iterdir())
    except OSError:  # It is closed to this user, or a file.
        return 0


def remove(published: Published, *, dry: bool) -> Problem | None:
    """Remove an object unless ``dry`` is set; return the problem if this user cannot."""
    folder = published.folder
    gone = folder.with_name(f".{folder.name}.gone-{time.time_ns()}")
    try:
        is_folder = stat.S_ISDIR(folder.lstat().st_mode)
        if is_folder and not os.access(folder, os.W_OK):
            return _refusal(published, f"only its owner {published.publisher} may write to it")
        if not dry:
            # Rename first, so that an interrupted removal leaves no incomplete object.
            folder.rename(gone)
            shutil.rmtree(gone) if is_folder else gone.unlink()
    except FileNotFoundError:  # Its owner removed it.
        return None
    except OSError as error:
        return _refusal(published, error.strerror or str(error))
    return None


def _refusal(published: Published, why: str) -> Problem:
    what = f"cannot remove '{published.shown}' from the shared cache"
    hint = f"ask {published.publisher}: lumicontainer cache prune --shared"
    return Problem(what, str(published.folder), why, hint)
