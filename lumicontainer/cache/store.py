"""Store layers and wheels as objects that are named by their inputs.

    $LUMICONTAINER_CACHE, else $XDG_CACHE_HOME/lumicontainer, else ~/.cache/lumicontainer   (0700)
    ├── objects/<name>/         one layer, or the wheels of one layer
    │   ├── entry.json          step, inputs of its key, parent, build time
    │   ├── …                   its files (layer.squashfs and files.json; or *.whl)
    │   └── sums                sha256 of each of these, as sha256sum(1) writes and checks them
    ├── held/<hash>             a check that passed for a step, or an image file without damage
    ├── jobs/<job>/             the log of a Slurm job that runs or failed
    ├── images/<hash>           which image uses which objects
    ├── facts/<hash>            the packages of an image that was extended
    ├── packages/<sha256>       a file of a package for an extension
    ├── bad/<name>-<time>/      a damaged object with the reason
    └── locks/<name>.{use,make}

The name of an object is the hash of its step's key and of the tree below it. An object gets its
name when it is complete and flushed, and all its bytes are verified before use.
"""

import contextlib
import errno
import json
import math
import os
import shutil
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from lumicontainer.cache import drafts, pruning, written
from lumicontainer.cache.downloads import Download, downloads
from lumicontainer.cache.integrity import Damaged, prove, sha256, sums_of
from lumicontainer.cache.objects import ENTRY, LARGEST, LAYER, SUMS, Entry, parse_entry
from lumicontainer.system import flock
from lumicontainer.system.files.ages import seconds_since
from lumicontainer.system.files.regular import open_no_link
from lumicontainer.system.files.trust import make_private_folders
from lumicontainer.system.files.user_cache import require_private, unwritable
from lumicontainer.system.files.write import sync, write_whole
from lumicontainer.system.os_errors import refused

_FOLDERS = ("objects", "held", "images", "bad", "locks")
UNREADABLE = "repeat the command; if it fails again, remove this folder: a build makes it again"


class Cache:
    """Read and write the objects of one cache folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def open(self) -> Self:
        """Create missing folders; raise ``HostError`` if the cache cannot be written."""
        try:
            make_private_folders(self.root)
            # Another user may have created the folder meanwhile.
            require_private(self.root)
            for each in self.folders():
                each.mkdir(exist_ok=True, mode=0o700)
            if not os.access(self.root / "locks", os.W_OK):
                raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        except OSError as error:
            raise unwritable(self.root, error) from error
        return self

    def folders(self) -> list[Path]:
        """Return the folders that every cache has."""
        return [self.root / name for name in _FOLDERS]

    def folder(self, name: str) -> Path:
        """Return the folder of an object, which may be missing."""
        return self.root / "objects" / name

    def entry(self, name: str) -> Entry | None:
        """Return an object without verifying it; None if it is missing.

        All facts are read here, because a prune may remove the object at any time.
        """
        folder = self.folder(name)
        try:
            about, sums = _read(folder / ENTRY), _read(folder / SUMS)
            size = sum(path.lstat().st_size for path in folder.iterdir())
            return parse_entry(folder, about, sums, size=size, used=folder.stat().st_mtime)
        except OSError:
            return None

    def names(self) -> list[str]:
        """Return the names of all objects, damaged or not."""
        return [folder.name for folder in written.entries(self.root / "objects")]

    def entries(self) -> Iterator[Entry]:
        """Yield every object."""
        yield from filter(None, map(self.entry, self.names()))

    def layers(self, digests: Collection[str]) -> Iterator[Path]:
        """Yield a squashfs for each of these sha256 that a layer has; no byte is verified."""
        missing = {*digests}
        for name in self.names():
            with contextlib.suppress(OSError, Damaged):
                if (digest := sums_of(_read(self.folder(name) / SUMS)).get(LAYER)) in missing:
                    missing.discard(digest)
                    yield self.folder(name) / LAYER

    def proven(self, name: str) -> Entry | None:
        """Return a verified object; None if it is missing, or damaged and so moved aside."""
        try:
            if self.examine(name):
                return None
            os.utime(self.folder(name))
        except FileNotFoundError:
            return None
        return self.entry(name)

    def examine(self, name: str) -> str:
        """Move a damaged object aside and return the damage; return nothing for an intact object.

        An object that a build replaces stays. This does not count as a use of the object. Raises
        ``FileNotFoundError`` if it is missing, and ``HostError`` if the system cannot read it.
        """
        folder = self.folder(name)
        with contextlib.suppress(Damaged):
            _prove(folder)
            return ""
        # A build may have replaced it while it was read; with the lock, no build does.
        with flock.attempt(self.make_lock(name)) as unused:
            try:
                _prove(folder)
            except Damaged as error:
                if unused:
                    self._move_aside(folder, str(error))
                return str(error)
        return ""

    def damaged(self) -> list[Path]:
        """Return the folders of damaged objects."""
        return written.entries(self.root / "bad", rf"{written.HASH}-\d+")

    def _move_aside(self, folder: Path, reason: str) -> None:
        aside = self.root / "bad" / f"{folder.name}-{time.time_ns()}"
        # Another build or a prune may have removed it.
        with contextlib.suppress(FileNotFoundError):
            folder.replace(aside)
            # A full disk must not stop a prune, which starts with this.
            with contextlib.suppress(OSError):
                (aside / "reason").write_text(f"{reason}\n")

    def draft(self, name: str) -> Path:
        """Return a new folder for building an object; the caller holds its ``make_lock``."""
        return drafts.create(self.root / "objects", name)

    def reclaim(self) -> None:
        """Remove the drafts of killed builds, of other hosts only if they are old."""
        for draft in written.entries(self.root / "objects", drafts.FORM):
            with flock.attempt(self.make_lock(drafts.name_of(draft))) as unused:
                if unused and not drafts.may_grow_elsewhere(draft):
                    shutil.rmtree(draft, ignore_errors=True)

    def store(self, draft: Path, about: Mapping[str, Any]) -> Entry:
        """Write the sums of a draft, flush it, and give it its name.

        ``about`` has key, step, kind, parent and inputs. An object with this name is removed; no
        build may use it.
        """
        (draft / ENTRY).write_text(f"{json.dumps(about, indent=1, sort_keys=True)}\n")
        sums = [f"{sha256(path)}  {path.name}\n" for path in sorted(draft.iterdir())]
        (draft / SUMS).write_text("".join(sums))
        return self.keep(draft)

    def keep(self, draft: Path) -> Entry:
        """Flush a complete draft and give it its name; the same conditions as for ``store``.

        An object that another node stored since the draft was created stays.
        """
        name = drafts.name_of(draft)
        for path in (*draft.iterdir(), draft):
            sync(path)
        while not (self._stored_elsewhere(draft) or self._rename(draft)):
            pass
        sync(self.root / "objects")
        entry = self.entry(name)
        assert entry is not None
        return entry

    def _stored_elsewhere(self, draft: Path) -> bool:
        name, born = drafts.name_of(draft), drafts.born(draft)
        with contextlib.suppress(Damaged, OSError):
            if self.made_since(name, born):
                prove(self.folder(name))
                shutil.rmtree(draft)
                return True
        return False

    def _rename(self, draft: Path) -> bool:
        """Give a draft its name; return False if another node was faster."""
        folder = self.folder(drafts.name_of(draft))
        self._delete(folder)
        try:
            draft.replace(folder)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            return False
        return True

    def remove(self, name: str, *, dry: bool = False) -> bool:
        """Remove an object unless a build uses it or ``dry`` is set; return whether none does."""
        with flock.attempt(self.use_lock(name)) as unused:
            if unused and not dry:
                self._delete(self.folder(name))
            return unused

    def _delete(self, folder: Path) -> None:
        # Rename first, so that an interrupted removal leaves no incomplete object.
        gone = folder.with_name(f".{folder.name}.gone-{time.time_ns()}")
        with contextlib.suppress(FileNotFoundError):
            folder.replace(gone)
            shutil.rmtree(gone, ignore_errors=True)

    def made_since(self, name: str, moment: float) -> bool:
        """Return whether an object was built since ``moment``, in seconds since 1970."""
        try:
            made = (self.folder(name) / ENTRY).stat().st_mtime
        except OSError:
            return False
        return made >= moment and seconds_since(made) < math.inf

    def prune(
        self,
        limit: int,
        keep: Collection[str] = (),
        *,
        before: float = 0,
        dry: bool = False,
        entries: Iterable[Entry] | None = None,
    ) -> list[Entry | Download]:
        """Remove objects and downloads as ``pruning.prune`` does; return them.

        Keep all if ``dry`` is set. Objects in ``keep`` and objects that a build uses stay.
        ``entries`` are all objects, if they were read just now.
        """

        def remove(each: Entry | Download) -> bool:
            if isinstance(each, Entry):
                return each.name not in keep and self.remove(each.name, dry=dry)
            if not dry:
                each.path.unlink(missing_ok=True)
            return True

        objects = self.entries() if entries is None else entries
        everything: list[Entry | Download] = [*objects, *downloads(self.root)]
        return pruning.prune(everything, remove, limit=limit, before=before)

    def use_lock(self, name: str) -> Path:
        """Return the file with a shared lock while an object is used."""
        return self.root / "locks" / f"{name}.use"

    def make_lock(self, name: str) -> Path:
        """Return the file that is locked while an object is built."""
        return self.root / "locks" / f"{name}.make"

    def has_passed(self, check: str) -> bool:
        """Return whether a check has passed; ``check`` is the hash of its inputs."""
        return (self.root / "held" / check).exists()

    def passed_for(self, check: str) -> bytes:
        """Return what a check has passed for; nothing if it has not passed, or for all at once."""
        try:
            return (self.root / "held" / check).read_bytes()
        except FileNotFoundError:
            return b""

    def note_passed(self, check: str, what: bytes = b"") -> None:
        """Record that a check has passed, and for ``what``."""
        write_whole(self.root / "held" / check, what)


def _read(path: Path) -> bytes:
    with open_no_link(path) as file:
        return file.read(LARGEST)


def _prove(folder: Path) -> None:
    try:
        prove(folder)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise refused(error, "cannot read the cache", str(folder), UNREADABLE) from error
