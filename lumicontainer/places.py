"""Where what is kept between commands lies, and how a file is written that others may read."""

from __future__ import annotations

import os
from pathlib import Path

from lumicontainer.errors import HostError, Problem


def cache_root() -> Path:
    """Return the folder of the present user's cache.

    Raises ``HostError`` where nothing names one: a user of a number alone has no home.
    """
    named = os.environ.get("LUMICONTAINER_CACHE")
    if named:
        return Path(named).absolute()
    named = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111
    if named.startswith("~"):
        mend = "name a folder of yours with LUMICONTAINER_CACHE"
        why = "HOME is not set, and the host knows no user of your number"
        raise HostError(Problem("the cache has no place", why=why, mend=mend))
    return Path(named).absolute() / "lumicontainer"


def is_private(folder: Path) -> bool:
    """Tell whether a folder is the present user's, with mode 0700; raise ``OSError`` for none."""
    info = folder.stat()
    return info.st_uid == os.getuid() and not info.st_mode & 0o077


def write_whole(path: Path, content: bytes) -> None:
    """Write a file; whoever reads it meanwhile finds the old or the new one, whole."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_bytes(content)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
