"""Where what is kept between commands lies, and how a file is written that others may read."""

from __future__ import annotations

import os
import shlex
import stat
from pathlib import Path

from lumicontainer.errors import HostError, Problem
from lumicontainer.system.files import trust


def cache_root() -> Path:
    """Return the folder of the present user's cache, which may be missing.

    Raises ``HostError`` where nothing names one (a user of a number alone has no home), where it is
    a symbolic link, and where other users could replace it.
    """
    root = _cache_root()
    require_own(root)
    return root


def require_own(root: Path) -> None:
    """Raise ``HostError`` where others decide what the cache ``root`` is."""
    # Of a folder that is closed to this user pathlib would raise; to open the cache says why.
    if os.path.islink(root):  # noqa: PTH114
        why, target = f"it is a symbolic link to {root.readlink()}", os.path.realpath(root)
        hint = f"name the folder itself: export LUMICONTAINER_CACHE={shlex.quote(target)}"
        raise HostError(Problem("cannot use a link as the cache", str(root), why, hint))
    if problem := trust.doubt(root, "the cache", "LUMICONTAINER_CACHE"):
        raise HostError(problem)


def _cache_root() -> Path:
    named = os.environ.get("LUMICONTAINER_CACHE")
    if named:
        return Path(named).absolute()
    named = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111
    if named.startswith("~"):
        hint = "name a folder of yours with LUMICONTAINER_CACHE"
        why = "HOME is not set, and the host knows no user of your number"
        raise HostError(Problem("the cache has no place", why=why, hint=hint))
    return Path(named).absolute() / "lumicontainer"


def is_private(folder: Path) -> bool:
    """Tell whether a folder is the present user's with mode 0700; raise ``OSError`` for none."""
    info = folder.lstat()
    return stat.S_ISDIR(info.st_mode) and info.st_uid == os.getuid() and not info.st_mode & 0o077
