"""Find the cache folder of the current user."""

import os
import shlex
from pathlib import Path

from lumicontainer.errors import HostError, Problem
from lumicontainer.system.files import trust


def cache_root() -> Path:
    """Return the current user's cache folder, which may be missing.

    Raises ``HostError`` if the user has no home folder, or if others could replace the cache.
    """
    named = os.environ.get("LUMICONTAINER_CACHE")
    if not named:
        named = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111
        if named.startswith("~"):
            hint = "name a folder of yours with LUMICONTAINER_CACHE"
            why = "HOME is not set, and your user id has no entry in the user database"
            raise HostError(Problem("cannot find a place for the cache", why=why, hint=hint))
        named = f"{named}/lumicontainer"
    root = Path(named).absolute()
    require_own(root)
    return root


def require_own(root: Path) -> None:
    """Raise ``HostError`` if others decide what the cache ``root`` is."""
    # pathlib raises if a parent folder is closed; opening the cache reports that.
    if os.path.islink(root):  # noqa: PTH114
        why, target = f"it is a symbolic link to {root.readlink()}", os.path.realpath(root)
        hint = f"name the folder itself: export LUMICONTAINER_CACHE={shlex.quote(target)}"
        raise HostError(Problem("cannot use a link as the cache", str(root), why, hint))
    if problem := trust.doubt(root, "the cache", "LUMICONTAINER_CACHE"):
        raise HostError(problem)
