"""Check whether other users of this host could replace the content of a folder.

A user who may write to a folder may rename its entries and put others in their place. The sticky
bit prevents this, except for the owner of the folder. So each folder and each symbolic link of a
path counts.
"""

import os
import pwd
import shlex
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from lumicontainer.errors import Problem

_LINKS = 40
"""Links that a path may have, as for the kernel (path_resolution(7))."""


def doubt(path: Path, what: str, variable: str, *, owners: bool = True) -> Problem | None:
    """Return the problem if others than root and this user could replace ``path``; else None.

    ``what`` names the path in the message, and ``variable`` sets another place. Without ``owners``
    a colleague may own a folder of the path, where strangers cannot write. A missing path is not
    checked.
    """
    is_open = False
    for place, info in _way(path.absolute()):
        if not stat.S_ISLNK(info.st_mode):  # A link is as safe as the folder that holds it.
            is_open = bool(_strangers(info))
        if who := _writers(info) or (_owner(info) if owners or is_open else ""):
            why = f"{place}: {who} ({_described(info)})"
            hint = f"{_change(place, info)}name a folder of yours with {variable}"
            return Problem(f"cannot use {what}: others could replace it", str(path), why, hint)
    return None


def doubt_programs(folder: Path, what: str, variable: str) -> Problem | None:
    """Return the problem if strangers could add programs to a folder of PATH, or replace some."""
    if problem := doubt(folder, what, variable, owners=False):
        return problem
    if not folder.is_dir() or not (who := is_open_to(folder)):
        return None
    why = f"{who} may write there ({_described(folder.stat())})"
    hint = f"name a folder of yours with {variable}"
    return Problem(f"cannot use {what}: others could add programs", str(folder), why, hint)


def doubt_output(path: Path, what: str, option: str) -> Problem | None:
    """Return the problem if strangers could replace a result, or have put a file there; else None.

    A colleague may own its folder.
    """
    folder = doubt(path.parent, f"{what}'s folder", option, owners=False)
    return folder or doubt_file(path, what, f"name a folder of yours with {option}")


def doubt_file(path: Path, what: str, hint: str) -> Problem | None:
    """Return the problem if a stranger has put a file there; a colleague may have."""
    if not os.path.lexists(path) or not (who := is_open_to(path.parent)):
        return None
    info = path.lstat()
    if not _owner(info):
        return None
    why = f"{who} may write to its folder, and it is not yours ({_described(info)})"
    return Problem(f"another user has put a file at the place of {what}", str(path), why, hint)


def is_open_to(folder: Path) -> str:
    """Return who else may put files into a folder; empty if nobody."""
    return _strangers(folder.stat())


def user_name(uid: int) -> str:
    """Return the name of a user, or the id if it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def make_private_folders(path: Path) -> None:
    """Create a folder and its missing parents with mode 0700."""
    if not path.parent.is_dir():
        make_private_folders(path.parent)
    with suppress(FileExistsError):
        path.mkdir(mode=0o700)


def _way(path: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield each folder and link from the root to ``path``, until one cannot be read."""
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
    """Return who else may write to a file or rename the entries of a folder; empty if nobody."""
    folder = stat.S_ISDIR(info.st_mode)
    if stat.S_ISLNK(info.st_mode) or (folder and info.st_mode & stat.S_ISVTX):
        return ""
    what = "may write there, and it has no sticky bit" if folder else "may write to it"
    who = _strangers(info)
    return f"{who} {what}" if who else ""


def _strangers(info: os.stat_result) -> str:
    """Return who else has a mode's right to write; empty if nobody."""
    if info.st_mode & stat.S_IWOTH:
        return "every user"
    # Members of a project write to its common folder and trust each other.
    if info.st_mode & stat.S_IWGRP and info.st_gid not in {0, os.getegid(), *os.getgroups()}:
        return "a group that is not yours"
    return ""


def _owner(info: os.stat_result) -> str:
    trusted = info.st_uid in {0, os.geteuid()} or _is_unmapped(info.st_uid)
    return "" if trusted else "another user owns it and can replace its content"


def _change(place: Path, info: os.stat_result) -> str:
    # A change of a device would harm other programs.
    if not _writers(info) or not (stat.S_ISDIR(info.st_mode) or stat.S_ISREG(info.st_mode)):
        return ""
    mode = "+t" if stat.S_ISDIR(info.st_mode) else "go-w"
    return f"chmod {mode} {shlex.quote(str(place))}, or "


def _is_unmapped(uid: int) -> bool:
    """Return whether this user namespace cannot map an owner, who may be root outside."""
    overflow = Path("/proc/sys/kernel/overflowuid").read_text().strip()
    rows = [line.split() for line in Path("/proc/self/uid_map").read_text().splitlines()]
    return str(uid) == overflow and rows != [["0", "0", "4294967295"]]


def _described(info: os.stat_result) -> str:
    return f"mode {stat.S_IMODE(info.st_mode):04o}, owner {user_name(info.st_uid)}"
