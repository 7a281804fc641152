"""Make an unpacked tree of others one that engines and steps can start in."""

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from lumicontainer.constants import EPOCH
from lumicontainer.image import variables
from lumicontainer.sandbox.tree.foreign.archive import FILE, FOLDER, Member
from lumicontainer.sandbox.tree.foreign.refusal import refusal
from lumicontainer.sandbox.tree.foreign.tree import GONE, Tree

_MOUNTED = ("dev", "proc", "sys")
"""Engines mount their own there: these folders are empty."""
_FOLDERS = dict.fromkeys(("etc", ".singularity.d", ".singularity.d/env", "home"), 0o755)
_FOLDERS |= {".singularity.d/libs": 0o755, "root": 0o700, "tmp": 0o1777, "var/tmp": 0o1777}
"""The folders and files that engines make if they are missing, with their modes."""
_REAL = ("etc", ".singularity.d", ".singularity.d/env", ".singularity.d/libs")
"""Engines and builds write there. A link could lead them to the files of the host."""
_REPLACED = ("tmp", "var/tmp")
"""Engines mount there: a link is replaced by a folder."""
_ENGINES_PART = ".singularity.d/env/99-base.sh"
BASE_MODES = ".singularity.d/base-modes.txt"
"""The paths that a base closes or opens to all users; the check image/files reads it."""
_HOSTS = b"127.0.0.1 localhost\n::1 localhost\n"


class Stat(Protocol):
    """The mode and the size of a path."""

    @property
    def st_mode(self) -> int:
        """Return its kind and its permissions."""

    @property
    def st_size(self) -> int:
        """Return the bytes of a file."""


class Looked(Protocol):
    """A tree, on a disk or in a squashfs."""

    def look(self, path: str) -> Stat | None:
        """Return what is at a path, whose last name is not followed; None if it is missing."""


def settle(tree: Tree, environment: Sequence[str] | None = None) -> list[str]:
    """Write what engines look for, and set the modes of folders; return the rows of the record.

    ``environment`` has the variables of an image of a registry, as NAME=VALUE. Raises
    ``InputError`` if an engine would follow a link of the tree.
    """
    tree.begin_layer()
    for member, content in own_layer(tree):
        tree.add(member, [content])
    if environment is not None:
        tree.add(_file(variables.PLACE, 0o755), [variables.script(environment).encode()])
    tree.add(_file(BASE_MODES), [list_unusual_modes(_modes(tree))])
    return list(_finish(tree))


def own_layer(tree: Looked) -> Iterator[tuple[Member, bytes]]:
    """Yield what an image gets from us; raise ``InputError`` if an engine would follow a link."""
    for path in _REAL:
        info = tree.look(path)
        if info and not stat.S_ISDIR(info.st_mode):
            raise refusal(f"/{path}", "it is not a folder, and engines would write where it leads")
    for name in _MOUNTED:
        yield Member(f"{GONE}{name}", FILE), b""
        yield Member(name, FOLDER, 0o755), b""
    for path, mode in _FOLDERS.items():
        info = tree.look(path)
        if not info or (path in _REPLACED and not stat.S_ISDIR(info.st_mode)):
            yield Member(path, FOLDER, mode), b""
    yield Member(f"{GONE}.dockerenv", FILE), b""
    files = {"etc/hostname": b"", "etc/resolv.conf": b""}
    if not _has_content(tree, "etc/hosts"):
        files["etc/hosts"] = _HOSTS
    yield from ((_file(path), content) for path, content in files.items())
    if not _has_content(tree, _ENGINES_PART):
        yield _file(_ENGINES_PART, 0o755), variables.ENGINES_PART.read_bytes()


def list_unusual_modes(modes: Iterable[tuple[str, int]]) -> bytes:
    """Return a line for each file and folder that not all users can read, or that all can write.

    ``modes`` has paths without a leading slash, and their modes with their kinds.
    """
    paths = sorted(path for path, mode in modes if _is_unusual(mode) and "\n" not in path)
    return b"".join(os.fsencode(f"/{path}\n") for path in paths)


def _is_unusual(mode: int) -> bool:
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        return False
    reads = stat.S_IROTH | (stat.S_IXOTH if stat.S_ISDIR(mode) else 0)
    return bool(reads & ~mode or mode & stat.S_IWOTH)


def _modes(tree: Tree) -> Iterator[tuple[str, int]]:
    """Yield each path of a tree with its mode; folders get theirs at the end."""
    for above, folders, files, here in os.fwalk(".", dir_fd=tree.root):
        for name in (*folders, *files):
            info = os.lstat(name, dir_fd=here)
            own = tree.owned.get(info.st_ino)
            mode = info.st_mode if own is None or own.mode is None else stat.S_IFDIR | own.mode
            yield f"{above}/{name}"[2:], mode


def _file(path: str, mode: int = 0o644) -> Member:
    return Member(path, FILE, mode, time=EPOCH)


def _has_content(tree: Looked, path: str) -> bool:
    info = tree.look(path)
    return bool(info and stat.S_ISREG(info.st_mode) and info.st_size)


def _finish(tree: Tree) -> Iterator[str]:
    """Set the modes of folders, and yield the owners that an ordinary user could not set."""
    for above, folders, files, here in os.fwalk(".", topdown=False, dir_fd=tree.root):
        for name in (*folders, *files):
            if name.startswith(GONE):
                raise refusal(f"{above}/{name}"[1:], f"its name begins with {GONE}")
            info = os.lstat(name, dir_fd=here)
            if not any(is_kind(info.st_mode) for is_kind in _KEPT):
                os.unlink(name, dir_fd=here)
            elif (own := tree.owned.get(info.st_ino)) and (own.uid or own.gid):
                yield f"{info.st_ino} {own.uid} {own.gid}\n"
        own = tree.owned.get(os.fstat(here).st_ino)
        if own and own.mode is not None:
            os.fchmod(here, own.mode)


_KEPT = (stat.S_ISREG, stat.S_ISDIR, stat.S_ISLNK)
"""Devices, pipes and sockets are not for an image."""
