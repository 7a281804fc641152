"""Read and fill a shared cache: a folder in which members of a group publish objects.

    $LUMICONTAINER_SHARED_CACHE/<name>/    an object as in a user's own cache, of its publisher;
                                           and sums.sig, if it is signed

An object is copied into the user's own cache and verified there, so nobody can change it after
that. Objects are never replaced. Nothing in the folder is locked or written by readers, so it may
lie on Lustre, or be mounted read-only.
"""

import contextlib
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from io import BufferedReader
from pathlib import Path
from typing import Self

from lumicontainer.cache import integrity, objects
from lumicontainer.cache.integrity import Damaged
from lumicontainer.cache.objects import Entry
from lumicontainer.cache.shared import trusted
from lumicontainer.cache.shared.source import Untrusted, keep_copy
from lumicontainer.cache.shared.trusted import Vouchers
from lumicontainer.cache.store import Cache
from lumicontainer.cache.written import HASH
from lumicontainer.errors import HostError, Problem
from lumicontainer.system import budget, units
from lumicontainer.system.files.ages import seconds_since
from lumicontainer.system.files.copying import copy_range
from lumicontainer.system.files.regular import open_no_link
from lumicontainer.system.files.trust import user_name
from lumicontainer.system.files.write import sync

FOLDER = "LUMICONTAINER_SHARED_CACHE"
_SIGNATURE = "sums.sig"
_DRAFT = re.compile(rf"\.{HASH}(\.gone)?-\w+")
"""Names of drafts, and of objects that are being removed; the rest of the folder is the users'."""
_ABANDONED = 3600
"""Seconds without a change after which a draft belongs to a publish that was killed."""


@dataclass(frozen=True)
class _Object:
    """Hold an open folder of an object; nothing in it is followed out of it."""

    folder: int

    @property
    def owner(self) -> str:
        return user_name(os.fstat(self.folder).st_uid)

    def open(self, name: str) -> BufferedReader:
        try:
            return open_no_link(name, self.folder)
        except OSError as error:
            raise Damaged(f"cannot read {name}: {error.strerror}") from error

    def read(self, name: str) -> bytes:
        with self.open(name) as file:
            return file.read(objects.LARGEST)

    def states(self) -> list[os.stat_result]:
        """Return the states of the folder and of its entries."""
        named = [os.stat(each, dir_fd=self.folder, follow_symlinks=False) for each in self.names()]
        return [os.fstat(self.folder), *named]

    def size(self) -> int:
        """Return the bytes of its files."""
        return sum(state.st_size for state in self.states()[1:])

    def names(self) -> list[str]:
        return os.listdir(self.folder)  # noqa: PTH208 - pathlib reads no descriptor


@dataclass(frozen=True)
class SharedCache:
    """Hold the folder of a shared cache, and whom the user trusts."""

    root: Path
    owners: frozenset[int] = frozenset()
    vouchers: Vouchers = field(default_factory=Vouchers)

    @classmethod
    def named(cls) -> Self | None:
        """Return the shared cache that the environment names, if it does."""
        root = os.environ.get(FOLDER)
        if not root:
            return None
        return cls(Path(root).absolute(), trusted.trusted_owners(), Vouchers.named())

    def require(self) -> None:
        """Raise ``HostError`` if the folder is missing or closed."""
        if not os.access(self.root, os.R_OK | os.X_OK):
            why = "it is closed to you" if self.root.exists() else "it does not exist"
            hint = f"correct {FOLDER}, or create it for a group: install -d -m 3770 -g GROUP DIR"
            raise HostError(Problem("cannot read the shared cache", str(self.root), why, hint))

    def names(self) -> list[str]:
        """Return the names of all objects, trusted or not."""
        names = (path.name for path in self.root.iterdir())
        return sorted(name for name in names if re.fullmatch(HASH, name))

    def has(self, name: str) -> bool:
        """Return whether a name is taken, whatever is there."""
        return os.path.lexists(self.root / name)

    def entry(self, name: str) -> Entry | None:
        """Return an object, whose bytes are not verified; None if it cannot be taken."""
        with contextlib.suppress(OSError, Damaged, Untrusted), self._open_object(name) as opened:
            publisher, sums = self._read_trusted(opened)
            size = opened.size()
            used = os.fstat(opened.folder).st_mtime
            about = opened.read(objects.ENTRY)
            entry = objects.parse_entry(self.root / name, about, sums, size=size, used=used)
            return entry and replace(entry, publisher=publisher)
        return None

    def take(self, name: str, store: Cache, count: Callable[[int], None] = lambda _: None) -> Entry:
        """Copy an object into a user's own cache, as ``LayerSource`` describes it."""
        with self._open_object(name) as opened:
            publisher, sums = self._read_trusted(opened)

            def copy_files(draft: Path) -> None:
                left = opened.size()
                for file in integrity.sums_of(sums):
                    with opened.open(file) as source, (draft / file).open("wb") as copy:
                        size = os.fstat(source.fileno()).st_size
                        if (left := left - size) < 0:
                            raise Damaged(f"{file} has grown while it was read")
                        copy_range(source.fileno(), 0, copy.fileno(), 0, size)
                    count(size)

            return keep_copy(store, name, sums, publisher, copy_files)

    def damage(self, name: str) -> str:
        """Return the damage of an object, whoever owns it; empty if each byte is as recorded."""
        try:
            with self._open_object(name) as opened:
                integrity.prove_files({*opened.names()} - {_SIGNATURE}, opened.open, name)
        except (OSError, Damaged) as error:
            return str(error)
        return ""

    def doubt(self, name: str, step: str) -> Problem | None:
        """Return the warning about an object that a build would not take; None if it is missing."""
        try:
            with self._open_object(name) as opened:
                self._read_trusted(opened)
        except FileNotFoundError:
            return None
        except (OSError, Damaged, Untrusted) as error:
            return self.refusal(name, step, error)
        return None

    def entries(self) -> Iterator[Entry]:
        """Yield the objects that a build would take; their bytes are not verified."""
        yield from filter(None, map(self.entry, self.names()))

    def refusal(self, name: str, step: str, error: Exception) -> Problem:
        """Return the warning that an object is not taken because of an error of ``take``."""
        place = self.root / name
        hint = f"its publisher removes it by rm -r {place}, and publishes it once more"
        hint = error.hint if isinstance(error, Untrusted) else hint
        what = f"'{step}' is not taken from the shared cache"
        return Problem(what, str(place), str(error), hint, "warning")

    @contextlib.contextmanager
    def _open_object(self, name: str) -> Iterator[_Object]:
        try:
            folder = os.open(self.root / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY)
        except NotADirectoryError:
            raise Damaged("it is a link or a file in place of a folder") from None
        try:
            yield _Object(folder)
        finally:
            os.close(folder)

    def _read_trusted(self, opened: _Object) -> tuple[str, bytes]:
        """Return the publisher of an object and its sums; raise ``Untrusted`` or ``Damaged``.

        Only its owner can put files into a folder that others cannot write to. A signature proves
        the sums, and these prove the files, whoever owns them.
        """
        # Its files may be of a user who signed nothing, and their sizes are not signed.
        if (size := opened.size()) > budget.LAYER.most:
            most = units.size(budget.LAYER.most)
            raise Damaged(f"it has {units.size(size)}, expected at most {most}")
        doubts = [doubt for state in opened.states() if (doubt := self._doubt(state))]
        if not doubts:
            return opened.owner, opened.read(objects.SUMS)
        why, hint = doubts[0]
        if any(self.vouchers):
            is_signed = _SIGNATURE in opened.names()
            sums = opened.read(objects.SUMS)
            if who := self.vouchers.find(sums, opened.read(_SIGNATURE) if is_signed else b""):
                return who, sums
            if self.vouchers.signers and is_signed:
                why += ", and none of the allowed signers signed it"
        raise Untrusted(why, hint)

    def _doubt(self, state: os.stat_result) -> tuple[str, str] | None:
        owner = user_name(state.st_uid)
        if state.st_uid not in self.owners:
            names = ",".join(filter(None, (os.environ.get(trusted.OWNERS), owner)))
            hint = f"if you trust {owner}, whose layers run as you: export {trusted.OWNERS}={names}"
            return f"its owner {owner} is not trusted", hint
        if state.st_mode & 0o022 and not stat.S_ISLNK(state.st_mode):
            return f"others than its owner {owner} may write to it", f"ask {owner}: chmod -R go-w"
        return None

    def publish(self, entry: Entry, key: str = "") -> bool:
        """Copy an object of the user's cache here; return whether this call has published it.

        ``key`` is an SSH key to sign it with. An object that is here already stays as it is. Raises
        ``Damaged`` if a byte differs from what was built.
        """
        if self.has(entry.name):
            return False
        draft = Path(tempfile.mkdtemp(prefix=f".{entry.name}-", dir=self.root))
        try:
            for path in entry.folder.iterdir():
                shutil.copyfile(path, draft / path.name)
            integrity.prove(draft, entry.name)
            if key:
                sums = (draft / objects.SUMS).read_bytes()
                (draft / _SIGNATURE).write_bytes(trusted.sign(sums, key))
            _open_to_group(draft, self.root.stat())
            return _rename(draft, self.root / entry.name)
        finally:
            shutil.rmtree(draft, ignore_errors=True)

    def remove_drafts(self) -> None:
        """Remove what killed publishes and prunes of this user left."""
        for draft in filter(lambda path: _DRAFT.fullmatch(path.name), self.root.iterdir()):
            with contextlib.suppress(OSError):
                states = [draft.lstat(), *(each.lstat() for each in draft.iterdir())]
                silent = min(seconds_since(state.st_mtime) for state in states)
                if states[0].st_uid == os.geteuid() and silent > _ABANDONED:
                    shutil.rmtree(draft, ignore_errors=True)


def _open_to_group(draft: Path, root: os.stat_result) -> None:
    """Let who may read the shared cache read an object, and only its publisher change it."""
    others = root.st_mode & 0o005
    for path in (*draft.iterdir(), draft):
        with contextlib.suppress(PermissionError):  # A folder of a group that is not the user's.
            os.chown(path, -1, root.st_gid)
        path.chmod(0o750 | others if path is draft else 0o640 | others & 0o004)
        sync(path)


def _rename(draft: Path, target: Path) -> bool:
    try:
        draft.rename(target)
    except OSError:
        # Another publish was faster. In a folder with the sticky bit the error is EPERM.
        if not os.path.lexists(target):
            raise
        return False
    sync(target.parent)
    return True
