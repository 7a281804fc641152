"""The cache of layers and wheels: objects that are named by what decides them.

    $LUMICONTAINER_CACHE, else $XDG_CACHE_HOME/lumicontainer, else ~/.cache/lumicontainer   (0700)
    ├── objects/<name>/         one layer, or the wheels of one layer
    │   ├── entry.json          what it is: step, inputs of its key, parent, when made
    │   ├── …                   its files (layer.squashfs and files.json; or *.whl)
    │   └── sums                sha256 of each of these, as sha256sum(1) writes and checks them
    ├── held/<hash>             a check that held for a step, or an image file that was found whole
    ├── images/<hash>           which image uses which objects
    ├── bad/<name>-<time>/      an object found damaged, with the reason
    └── locks/<name>.{use,make}

The name of an object is the hash of its step's key and of the tree that it was made upon, which all
layers below make: on another tree it is another object. It takes that name whole and flushed, and
each of its bytes is proven before it is used.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import shlex
import shutil
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lumicontainer.errors import HostError, InputError, Problem
from lumicontainer.system import flock
from lumicontainer.system.files.trust import make_folders
from lumicontainer.system.files.user_cache import is_private, require_own
from lumicontainer.system.files.write import sync
from lumicontainer.system.os_errors import refused

DEFAULT_SIZE = 8 << 30
"""Bytes: two thirds of the smallest home quota that LUMI gives (20 GB) stay free."""
LAYER, INDEX, ENTRY, SUMS = "layer.squashfs", "files.json", "entry.json", "sums"
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


@dataclass(frozen=True)
class Entry:
    """Hold what is known of one object, and where it lies."""

    folder: Path
    name: str
    key: str
    """Of the step."""
    step: str
    kind: str
    """``layer`` or ``wheels``."""
    parent: str
    """The ``tree`` on which it was made; empty for a base."""
    inputs: Mapping[str, Any]
    digest: str
    """Of all its files but ``entry.json``: equal content has an equal digest."""
    size: int = field(compare=False)
    """The bytes that it takes."""
    used: float = field(compare=False)
    """When it was last used, in seconds since 1970."""

    @property
    def tree(self) -> str:
        """Return what identifies the tree that a layer makes with all layers below it."""
        return hashlib.sha256(f"{self.parent} {self.digest}".encode()).hexdigest()

    @property
    def layer(self) -> Path:
        """Return the squashfs of a layer."""
        return self.folder / LAYER

    def sha256(self, name: str) -> str:
        """Return the sha256 that one of its files was stored with; the object is proven."""
        rows = (line.split("  ", 1) for line in (self.folder / SUMS).read_text().splitlines())
        return next(digest for digest, file in rows if file == name)


def object_name(key: str, parent: str) -> str:
    """Return the name of what the step ``key`` makes upon the tree ``parent``."""
    return hashlib.sha256(f"{key} {parent}".encode()).hexdigest()


class Damaged(Exception):  # noqa: N818 - it is caught where an object is read, and never shown
    """Say in what an object differs from what was stored."""


def parse_size(text: str, where: str) -> int:
    """Return a size such as ``500M`` or ``8G`` in bytes; raise ``InputError`` where it is none.

    ``where`` is the option or the variable that it is the value of.
    """
    parts = re.fullmatch(r"(?ai)([0-9]{1,15}(?:\.[0-9]+)?) ?(?:([KMGT])i?)?B?", text.strip())
    if parts is None:
        raise InputError(Problem(f"invalid size {text!r}", where, hint="write it like 500M or 8G"))
    return int(float(parts[1]) * _UNITS[(parts[2] or "").upper()])


def size_limit() -> int:
    """Return the bytes above which the least recently used objects go after a build."""
    variable = "LUMICONTAINER_CACHE_SIZE"
    named = os.environ.get(variable)
    return parse_size(named, variable) if named else DEFAULT_SIZE


class Cache:
    """Give and take objects by key."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def open(self) -> Cache:
        """Make the folders where they are missing; raise ``HostError`` where that is refused."""
        try:
            make_folders(self.root)
            # Somebody else may have made a folder of that name meanwhile.
            require_own(self.root)
            if not is_private(self.root):
                raise _no_cache(self.root, "it is not a folder of yours with mode 0700")
            for name in ("objects", "held", "images", "bad", "locks"):
                (self.root / name).mkdir(exist_ok=True, mode=0o700)
            if not os.access(self.root / "locks", os.W_OK):
                raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        except OSError as error:
            other = "name another place with LUMICONTAINER_CACHE"
            raise refused(error, "cannot write to the cache", str(self.root), other) from error
        return self

    def folder(self, name: str) -> Path:
        """Return where an object lies, or would."""
        return self.root / "objects" / name

    def entry(self, name: str) -> Entry | None:
        """Return an object without proving it, or None where there is none.

        All that is told of it is read here: a prune may remove it at any moment.
        """
        folder = self.folder(name)
        try:
            data = json.loads((folder / ENTRY).read_bytes())
            told = {each: data[each] for each in ("key", "step", "kind", "parent", "inputs")}
            told["digest"] = _digest((folder / SUMS).read_text())
            size = sum(path.stat().st_size for path in folder.iterdir())
            return Entry(folder, name, **told, size=size, used=folder.stat().st_mtime)
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def names(self) -> list[str]:
        """Return the names of all objects, damaged or not."""
        return sorted(folder.name for folder in (self.root / "objects").glob("[!.]*"))

    def entries(self) -> Iterator[Entry]:
        """Yield every object."""
        for name in self.names():
            entry = self.entry(name)
            if entry:
                yield entry

    def proven(self, name: str) -> Entry | None:
        """Return an object with each byte proven; a damaged one is moved aside.

        The result is None where there is none, or it was damaged.
        """
        try:
            if self.examine(name):
                return None
            os.utime(self.folder(name))
        except FileNotFoundError:
            return None
        return self.entry(name)

    def examine(self, name: str) -> str:
        """Return in what an object is damaged, once it is moved aside; nothing where it is whole.

        While a build makes it anew, it stays where it is. To examine an object is no use of it.
        Raises ``FileNotFoundError`` where there is none.
        """
        folder = self.folder(name)
        with contextlib.suppress(Damaged):
            prove(folder)
            return ""
        # A build may have put another in its place while it was read; none does with the lock held.
        held = flock.exclusive(self.make_lock(name))
        try:
            prove(folder)
        except Damaged as error:
            if held is not None:
                self._move_aside(folder, str(error))
            return str(error)
        finally:
            if held is not None:
                os.close(held)
        return ""

    def damaged(self) -> list[Path]:
        """Return the folders of the objects that were moved aside."""
        return sorted((self.root / "bad").glob("*"))

    def _move_aside(self, folder: Path, reason: str) -> None:
        aside = self.root / "bad" / f"{folder.name}-{time.time_ns()}"
        # Another build found the same at the same time, or a prune removed it already.
        with contextlib.suppress(FileNotFoundError):
            folder.replace(aside)
            # On a full disk it goes without, for a prune that makes room begins with this.
            with contextlib.suppress(OSError):
                (aside / "reason").write_text(f"{reason}\n")

    def draft(self, name: str) -> Path:
        """Return a new folder in which an object is put together.

        Call it with the lock for making the object held.
        """
        draft = self.root / "objects" / f".{name}"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o700)
        return draft

    def reclaim(self) -> None:
        """Remove what builds that died left half done."""
        for draft in (self.root / "objects").glob(".*"):
            held = flock.exclusive(self.make_lock(draft.name.split(".")[1]))
            if held is not None:
                shutil.rmtree(draft, ignore_errors=True)
                os.close(held)

    def store(self, draft: Path, about: Mapping[str, Any]) -> Entry:
        """Give a draft its name, once its sums are written and every byte is on the disk.

        ``about`` has the key, the step, the kind, the parent and the inputs. What has the name is
        put away; no build may use it.
        """
        name = draft.name[1:]
        text = json.dumps(about, indent=1, sort_keys=True)
        (draft / ENTRY).write_text(f"{text}\n")
        files = sorted(draft.iterdir())
        sums = "".join(f"{sha256(path)}  {path.name}\n" for path in files)
        (draft / SUMS).write_text(sums)
        for path in (*draft.iterdir(), draft):
            sync(path)
        self._put_away(self.folder(name))
        draft.replace(self.folder(name))
        sync(self.root / "objects")
        entry = self.entry(name)
        assert entry is not None
        return entry

    def remove(self, entry: Entry) -> bool:
        """Remove an object, unless a build uses it at this moment; tell whether it went."""
        held = flock.exclusive(self.use_lock(entry.name))
        if held is None:
            return False
        self._put_away(entry.folder)
        os.close(held)
        return True

    def _put_away(self, folder: Path) -> None:
        # Renamed first: a removal that is cut short leaves no object with files missing.
        gone = folder.with_name(f".{folder.name}.gone-{time.time_ns()}")
        with contextlib.suppress(FileNotFoundError):
            folder.replace(gone)
            shutil.rmtree(gone, ignore_errors=True)

    def unused(self, entry: Entry) -> bool:
        """Tell whether no build uses an object at this moment."""
        held = flock.exclusive(self.use_lock(entry.name))
        if held is not None:
            os.close(held)
        return held is not None

    def made_since(self, name: str, moment: float) -> bool:
        """Tell whether there is an object that was made since ``moment``, in seconds since 1970."""
        try:
            return (self.folder(name) / ENTRY).stat().st_mtime >= moment
        except OSError:
            return False

    def prune(self, limit: int, keep: Collection[str] = (), *, dry: bool = False) -> list[Entry]:
        """Remove the least recently used objects until all take at most ``limit`` bytes.

        Those named in ``keep``, and those that a build uses at this moment, stay. Returns what
        went, or, where ``dry`` is set, what would go.
        """
        take = self.unused if dry else self.remove
        entries = sorted(self.entries(), key=lambda entry: entry.used)
        total, gone = sum(entry.size for entry in entries), []
        for entry in entries:
            if total > limit and entry.name not in keep and take(entry):
                total -= entry.size
                gone.append(entry)
        return gone

    def use_lock(self, name: str) -> Path:
        """Return the file that is locked, shared, while an object is used."""
        return self.root / "locks" / f"{name}.use"

    def make_lock(self, name: str) -> Path:
        """Return the file that is locked while an object is made."""
        return self.root / "locks" / f"{name}.make"

    def holds(self, check: str) -> bool:
        """Tell whether a check is noted to hold; ``check`` is the hash of all that decides it."""
        return (self.root / "held" / check).exists()

    def note_held(self, check: str) -> None:
        """Note that a check holds."""
        (self.root / "held" / check).touch()


def prove(folder: Path) -> None:
    """Raise ``Damaged`` where a byte of an object is not what was stored.

    Raises ``FileNotFoundError`` where there is no object.
    """
    if not folder.is_dir():
        raise FileNotFoundError(folder)
    try:
        # Not splitlines(), which takes a damaged end of a line for another kind of it.
        lines = (folder / SUMS).read_bytes().decode().removesuffix("\n").split("\n")
        rows = [line.split("  ", 1) for line in lines]
        named = {name: digest for digest, name in rows}
        found = {path.name for path in folder.iterdir()} - {SUMS}
        if found != named.keys():
            raise Damaged(f"its files are not those of its sums: {sorted(found ^ named.keys())}")
        for name, digest in named.items():
            if sha256(folder / name) != digest:
                raise Damaged(f"{name} is not what was stored: its sha256 is another")
        about = json.loads((folder / ENTRY).read_bytes())
        if object_name(about["key"], about["parent"]) != folder.name:
            raise Damaged("it is another object")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Damaged(str(error)) from error


def _digest(sums: str) -> str:
    rows = [line for line in sums.splitlines() if not line.endswith(f"  {ENTRY}")]
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()


def _no_cache(root: Path, why: str) -> HostError:
    # Path.is_dir raises where a folder above is closed (Python 3.11).
    there = os.path.isdir(root)  # noqa: PTH112
    private = f"chmod 700 {shlex.quote(str(root))}, or " if there else ""
    hint = f"{private}name another place with LUMICONTAINER_CACHE"
    return HostError(Problem("the cache has no place", str(root), why, hint))


def sha256(path: Path) -> str:
    """Return the sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
