"""Judge whether other users of this host could replace what lies in a folder.

Whoever may write in a folder may rename what lies there, however private that is, and put something
else in its place. The sticky bit forbids it, but to the owner of the folder. So each folder on the
way counts, and each symbolic link that leads on, whose owner chooses where to.
"""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from lumicontainer.errors import Problem

_LINKS = 40
"""How many links a path may lead through, as for the kernel (path_resolution(7))."""


def doubt(path: Path, what: str, variable: str, *, owners: bool = True) -> Problem | None:
    """Return why ``what`` cannot lie at ``path``, or None where only root and this user decide.

    Without ``owners`` the owner of a folder is not asked for: a colleague may own a common one.
    ``variable`` names another place. What is missing is not judged.
    """
    for place, info in _way(path.absolute()):
        if who := _writers(info) or (_owner(info) if owners else ""):
            told = f"{place}: {who} ({_described(info)})"
            hint = f"{_change(place, info)}name a folder of yours with {variable}"
            return Problem(f"cannot use {what}: others could replace it", str(path), told, hint)
    return None


def make_folders(path: Path) -> None:
    """Make a folder and those above it that are missing, all with mode 0700 whatever the umask."""
    if not path.parent.is_dir():
        make_folders(path.parent)
    with suppress(FileExistsError):
        path.mkdir(mode=0o700)


def _way(path: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield each folder and link from the root to ``path``, links followed, until one is missing.

    What this user may not look at ends it, too: it cannot be used either.
    """
    at, links = Path("/"), 0
    left = list(reversed(path.parts[1:]))
    yield at, at.lstat()
    while left:
        name = left.pop()
        place = at.parent if name == ".." else at / name
        try:
            info = place.lstat()
        except OSError:
            return
        yield place, info
        if not stat.S_ISLNK(info.st_mode):
            at = place
            continue
        links += 1
        if links > _LINKS:
            return
        target = place.readlink()
        at = Path("/") if target.is_absolute() else at
        left += reversed([part for part in target.parts if part != "/"])


def _writers(info: os.stat_result) -> str:
    """Return who else may rename what lies in a folder, or write to a file; or nothing."""
    folder = stat.S_ISDIR(info.st_mode)
    if stat.S_ISLNK(info.st_mode) or (folder and info.st_mode & stat.S_ISVTX):
        return ""
    what = "may write there, and it has no sticky bit" if folder else "may write to it"
    if info.st_mode & stat.S_IWOTH:
        return f"every user {what}"
    # A project's common folder is written by its members, who trust each other with all in it.
    if info.st_mode & stat.S_IWGRP and info.st_gid not in {0, os.getegid(), *os.getgroups()}:
        return f"a group that is not yours {what}"
    return ""


def _owner(info: os.stat_result) -> str:
    trusted = info.st_uid in {0, os.geteuid()} or _is_unmapped(info.st_uid)
    return "" if trusted else "another user owns it, and can replace what lies there"


def _change(place: Path, info: os.stat_result) -> str:
    if not _writers(info):
        return ""
    mode = "+t" if stat.S_ISDIR(info.st_mode) else "go-w"
    return f"chmod {mode} {shlex.quote(str(place))}, or "


def _is_unmapped(uid: int) -> bool:
    """Tell whether this namespace has no number for an owner: outside, that may be root."""
    overflow = Path("/proc/sys/kernel/overflowuid").read_text().strip()
    rows = [line.split() for line in Path("/proc/self/uid_map").read_text().splitlines()]
    return str(uid) == overflow and rows != [["0", "0", "4294967295"]]


def _described(info: os.stat_result) -> str:
    import pwd  # noqa: PLC0415 - only where something is wrong

    try:
        owner = pwd.getpwuid(info.st_uid).pw_name
    except KeyError:
        owner = str(info.st_uid)
    return f"mode {stat.S_IMODE(info.st_mode):04o}, owner {owner}"
