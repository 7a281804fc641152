"""Write what others made into a tree, and nowhere else.

Each path is followed from the tree's root by descriptors, folder by folder. A link on the way leads
to where it would lead in a container; the last name of a path is not followed.
"""

import errno
import os
import shutil
import stat
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from lumicontainer.sandbox.tree.foreign.archive import (
    FILE,
    FOLDER,
    HARD_LINK,
    SPECIAL,
    SYMLINK,
    Member,
)
from lumicontainer.sandbox.tree.foreign.refusal import OUT, refusal

GONE, _EMPTIED, _OF_AUFS = ".wh.", ".wh..wh..opq", ".wh..wh."
"""The names that remove what lies below (layer.md of the OCI image specification), and the names of
AUFS, which mean nothing elsewhere.
"""
_DEEPEST, _LONGEST, _LONGEST_NAME = 200, 3000, 255
"""Folders above a path, bytes of a path, and of a name: no program here reads longer ones."""
_MOST_LINKS = 40
"""The links that Linux follows in one path (path_resolution(7))."""
MOST_MEMBERS = 5_000_000
_FREE_STEPS, _STEPS = 1_000_000, 50
"""The folders that all paths may lead through together: some, and as many for each member."""
_HERE = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
Parts = tuple[str, ...]


class Owned(NamedTuple):
    """Hold the owner of a path, and the mode that a folder gets when all is there."""

    uid: int = 0
    gid: int = 0
    mode: int | None = None


def split(path: str) -> Parts:
    """Return the names of a path of an image, from its root, however it is written."""
    return tuple(name for name in path.split("/") if name not in ("", "."))


class Tree:
    """A folder that is filled with an image, and that nobody else changes meanwhile."""

    def __init__(self, root: Path) -> None:
        self.root = os.open(root, _HERE)
        self.as_root = os.geteuid() == 0
        self.owned: dict[int, Owned] = {}
        """The values that paths get, by inode; the default is left out."""
        self._last: tuple[Parts, int] | None = None
        """The folder that was entered last, and its descriptor."""
        self._written: set[int] = set()
        """The inodes that the current layer has written."""
        self._cleared: set[int] = set()
        """The folders where it has removed all that lies below."""
        self._members = self._steps = 0

    def begin_layer(self) -> None:
        """Begin a layer: its removals apply to what is there."""
        self._written.clear()
        self._cleared.clear()

    def add(self, member: Member, pieces: Iterable[bytes]) -> None:
        """Add one member of a layer, or remove what it marks as gone."""
        self._members += 1
        if self._members > MOST_MEMBERS:
            raise refusal(member.name, f"the image has more than {MOST_MEMBERS} files")
        parts = split(member.name)
        if ".." in parts or (member.kind != FOLDER and not parts):
            raise refusal(member.name, OUT)
        if any(name.startswith(GONE) for name in parts[:-1]):
            raise refusal(member.name, f"the name of a folder begins with {GONE}")
        require_path(member.name, parts)
        if not parts:
            self._own(member, self.root)
        elif parts[-1].startswith(GONE):
            self._remove_marked(member.name, parts)
        elif member.kind == HARD_LINK:
            self._link(member, parts)
        elif member.kind != SPECIAL:
            with self._enter(parts[:-1], member.name) as folder:
                self._write(member, folder, parts[-1], pieces)

    # writing

    def _write(self, member: Member, folder: int, name: str, pieces: Iterable[bytes]) -> None:
        present = _look(folder, name)
        if present and not (member.kind == FOLDER and stat.S_ISDIR(present.st_mode)):
            self._remove(folder, name)
            present = None
        if member.kind == FILE:
            self._write_file(member, folder, name, pieces)
            return
        if member.kind == SYMLINK:
            if not member.target or len(os.fsencode(member.target)) > _LONGEST:
                raise refusal(member.name, "the target of its link is empty or too long")
            os.symlink(member.target, name, dir_fd=folder)
        elif not present:
            os.mkdir(name, 0o755, dir_fd=folder)
        self._own(member, name, folder)

    def _write_file(self, member: Member, folder: int, name: str, pieces: Iterable[bytes]) -> None:
        file = os.open(name, _NEW, 0o600, dir_fd=folder)
        with os.fdopen(file, "wb") as opened:
            for piece in pieces:
                opened.write(piece)
            opened.flush()
            self._own(member, file)
            os.fchmod(file, member.mode)
            os.utime(file, (member.time, member.time))

    def _link(self, member: Member, parts: Parts) -> None:
        """Make a hard link to a path of the tree, which may be a symlink."""
        target = split(member.target)
        if not target or ".." in target:
            raise refusal(member.name, OUT)
        require_path(member.name, target)
        with (
            self._enter(parts[:-1], member.name) as folder,
            self._enter(target[:-1], member.name) as source,
        ):
            original, present = _look(source, target[-1]), _look(folder, parts[-1])
            if not original or stat.S_ISDIR(original.st_mode):
                raise refusal(member.name, f"it is a hard link to no file: {member.target!a:.300}")
            self._written.add(original.st_ino)
            if present and present.st_ino == original.st_ino:
                return
            if present:
                self._remove(folder, parts[-1])
            places = {"src_dir_fd": source, "dst_dir_fd": folder}
            try:
                os.link(target[-1], parts[-1], **places, follow_symlinks=False)
            except FileNotFoundError as error:
                raise refusal(member.name, "it takes the place of what it is a link to") from error

    def _own(self, member: Member, path: int | str, folder: int | None = None) -> None:
        """Give a path its owner, or note it for the record; note the mode of a folder."""
        if self.as_root:
            follow = folder is None  # A descriptor cannot be followed further.
            try:
                os.chown(path, member.uid, member.gid, dir_fd=folder, follow_symlinks=follow)
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise
                owner = f"{member.uid}:{member.gid}"
                why = f"its owner {owner} is not among the subordinate ids of your account"
                raise refusal(member.name, why) from error
        info = os.fstat(path) if isinstance(path, int) else os.lstat(path, dir_fd=folder)
        self._written.add(info.st_ino)
        own = Owned(member.uid, member.gid, member.mode if member.kind == FOLDER else None)
        self.owned[info.st_ino] = own
        if own == Owned():
            del self.owned[info.st_ino]  # A removed path may have had this inode.

    def look(self, path: str) -> os.stat_result | None:
        """Return what a path is, without following it; None if it is missing."""
        parts = split(path)
        if not parts:
            return os.fstat(self.root)
        with self._enter(parts[:-1], path, create=False) as folder:
            return _look(folder, parts[-1]) if folder >= 0 else None

    def set_mode(self, path: str, mode: int) -> None:
        """Set the mode of a path that is not a link."""
        parts = split(path)
        if not parts:
            os.fchmod(self.root, mode)
            return
        with self._enter(parts[:-1], path, create=False) as folder:
            os.chmod(parts[-1], mode, dir_fd=folder)

    # removing

    def _remove_marked(self, path: str, parts: Parts) -> None:
        *above, mark = parts
        gone = mark.removeprefix(GONE)
        if mark != _EMPTIED and mark.startswith(_OF_AUFS):
            return
        if gone in ("", ".", ".."):
            raise refusal(path, OUT)
        with self._enter(tuple(above), path, create=False) as folder:
            if folder < 0:
                return
            if mark == _EMPTIED:
                self._empty(folder)
            else:
                self._clear(folder, gone)

    def _empty(self, folder: int) -> bool:
        """Remove what a folder has of lower layers; return whether something is left."""
        number = os.fstat(folder).st_ino
        if number in self._cleared:
            return True
        left = [self._clear(folder, each) for each in _names(folder)]
        self._cleared.add(number)
        return any(left)

    def _clear(self, folder: int, name: str) -> bool:
        """Remove what is not of the current layer; return whether something is left."""
        present = _look(folder, name)
        if not present:
            return False
        own = present.st_ino in self._written
        if not stat.S_ISDIR(present.st_mode):
            if not own:
                os.unlink(name, dir_fd=folder)
            return own
        below = os.open(name, _HERE, dir_fd=folder)
        try:
            left = self._empty(below)
        finally:
            os.close(below)
        if own or left:
            return True
        self._remove(folder, name)
        return False

    def _remove(self, folder: int, name: str) -> None:
        self._forget()
        if stat.S_ISDIR(os.lstat(name, dir_fd=folder).st_mode):
            shutil.rmtree(name, dir_fd=folder)
        else:
            os.unlink(name, dir_fd=folder)

    # finding

    @contextmanager
    def _enter(self, parts: Parts, path: str, *, create: bool = True) -> Iterator[int]:
        """Yield the descriptor of a folder; it is -1 if the folder is missing and not created."""
        if self._last is None or self._last[0] != parts:
            descriptor = self._walk(parts, path, create=create)
            self._forget()
            if descriptor < 0:
                yield descriptor
                return
            self._last = (parts, descriptor)
        copy = os.dup(self._last[1])
        try:
            yield copy
        finally:
            os.close(copy)

    def _forget(self) -> None:
        if self._last:
            os.close(self._last[1])
        self._last = None

    def _walk(self, parts: Parts, path: str, *, create: bool) -> int:
        """Follow a path from the root; return the descriptor of its folder."""
        left, links = deque(parts), 0
        opened, names = [os.dup(self.root)], [""]
        try:
            while left:
                self._count_step(path)
                name = left.popleft()
                if name == "..":
                    if len(opened) == 1:
                        raise refusal(path, OUT)
                    os.close(opened.pop())
                    names.pop()
                    continue
                names.append(name)
                require_path(path, names)
                step = self._step(opened[-1], name, path, create=create)
                if isinstance(step, int):
                    if step < 0:
                        return step
                    opened.append(step)
                    continue
                names.pop()
                links += 1
                if links > _MOST_LINKS:
                    raise refusal(path, "it cannot be followed: its links are a loop")
                if step.startswith("/"):
                    while len(opened) > 1:
                        os.close(opened.pop())
                    names = [""]
                left.extendleft(reversed(split(step)))
            return os.dup(opened[-1])
        finally:
            for each in opened:
                os.close(each)

    def _count_step(self, path: str) -> None:
        self._steps += 1
        if self._steps > _FREE_STEPS + _STEPS * self._members:
            raise refusal(path, "the paths of the image lead through too many links")

    def _step(self, folder: int, name: str, path: str, *, create: bool) -> int | str:
        """Return the descriptor of a folder in another one, or the target of a link there."""
        try:
            return os.open(name, _HERE, dir_fd=folder)
        except FileNotFoundError:
            if not create:
                return -1
            os.mkdir(name, 0o755, dir_fd=folder)
            descriptor = os.open(name, _HERE, dir_fd=folder)
            self._own(Member(path, FOLDER, 0o755), descriptor)
            return descriptor
        except NotADirectoryError:
            try:
                return os.readlink(name, dir_fd=folder)
            except OSError:
                raise refusal(path, "a folder of its path is a file") from None


def _names(folder: int) -> list[str]:
    with os.scandir(folder) as entries:
        return [each.name for each in entries]


def _look(folder: int, name: str) -> os.stat_result | None:
    try:
        return os.lstat(name, dir_fd=folder)
    except FileNotFoundError:
        return None


def require_path(path: str, names: Sequence[str]) -> None:
    """Raise ``InputError`` if a path, or a name of it, is longer than programs read."""
    lengths = [len(os.fsencode(name)) for name in names]
    if max(lengths, default=0) > _LONGEST_NAME:
        raise refusal(path, f"it has a name of more than {_LONGEST_NAME} bytes")
    if len(names) > _DEEPEST or sum(lengths) + len(names) > _LONGEST:
        raise refusal(path, f"it has more than {_DEEPEST} folders or {_LONGEST} bytes")
