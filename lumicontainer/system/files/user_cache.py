"""Find the cache folder of the current user."""

import os
import shlex
import tempfile
from pathlib import Path

from lumicontainer.errors import HostError, Problem, SpaceError
from lumicontainer.inside.node.private_folder import is_private
from lumicontainer.system.files import trust
from lumicontainer.system.os_errors import refused

ELSEWHERE = "name another place with LUMICONTAINER_CACHE"


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
    if os.path.exists(root) and not os.path.isdir(root):  # noqa: PTH110, PTH112
        raise HostError(Problem("the cache is not a folder", str(root), hint=ELSEWHERE))
    if problem := trust.doubt(root, "the cache", "LUMICONTAINER_CACHE"):
        raise HostError(problem)


def require_private(root: Path) -> None:
    """Raise ``HostError`` if the cache ``root`` is not a private folder."""
    require_own(root)
    if not is_private(root.lstat()):
        why = "it is not a folder of yours with mode 0700"
        hint = f"chmod 700 {shlex.quote(str(root))}, or " * root.is_dir() + ELSEWHERE
        raise HostError(Problem("the cache is not private", str(root), why, hint))


def require_usable(root: Path) -> None:
    """Raise ``HostError`` if a build could not use the cache ``root``, or create it."""
    try:
        if root.exists():
            require_private(root)
        nearest = next(each for each in (root, *root.parents) if each.exists())
        # Permissions do not decide alone: /proc takes no file, and a quota may be used up.
        tempfile.TemporaryFile(dir=nearest).close()
    except OSError as error:
        raise unwritable(root, error) from error


def unwritable(root: Path, error: OSError) -> HostError | SpaceError:
    """Return the error for a cache that the system does not let this user write."""
    return refused(error, "cannot write to the cache", str(root), ELSEWHERE)
