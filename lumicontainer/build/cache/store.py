"""Store layers and wheels as objects that are named by their inputs.

    $LUMICONTAINER_CACHE, else $XDG_CACHE_HOME/lumicontainer, else ~/.cache/lumicontainer   (0700)
    ├── objects/<name>/         one layer, or the wheels of one layer
    │   ├── entry.json          step, inputs of its key, parent, build time
    │   ├── …                   its files (layer.squashfs and files.json; or *.whl)
    │   └── sums                sha256 of each of these, as sha256sum(1) writes and checks them
    ├── listings/<digest>       the files of a layer, as its image lists them
    ├── held/<hash>             a check that passed for a step, or an image file without damage
    ├── images/<hash>           which image uses which objects
    ├── bad/<name>-<time>/      a damaged object with the reason
    └── locks/<name>.{use,make}

The name of an object is the hash of its step's key and of the tree below it. An object gets its
name when it is complete and flushed, and all its bytes are verified before use.
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

LISTING = "listing"
"""The list of a layer's files in a draft: derived from the layer, so not part of the object."""
DEFAULT_SIZE = 8 << 30
"""Bytes: 60 % of LUMI's smallest home quota (20 GB) stay free."""
LAYER, INDEX, ENTRY, SUMS = "layer.squashfs", "files.json", "entry.json", "sums"
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


@dataclass(frozen=True)
class Entry:
    """Hold the facts of one object."""

    folder: Path
    name: str
    key: str
    step: str
    kind: str
    """``layer`` or ``wheels``."""
    parent: str
    """The ``tree`` below it; empty for a base."""
    inputs: Mapping[str, Any]
    digest: str
    """The digest of all its files except ``entry.json``."""
    size: int = field(compare=False)
    used: float = field(compare=False)
    """The time of its last use, in seconds since 1970."""

    @property
    def tree(self) -> str:
        """Return the digest of the tree of a layer and all layers below it."""
        return hashlib.sha256(f"{self.parent} {self.digest}".encode()).hexdigest()

    @property
    def layer(self) -> Path:
        """Return the squashfs of a layer."""
        return self.folder / LAYER

    def sha256(self, name: str) -> str:
        """Return the recorded sha256 of one of its files."""
        rows = (line.split("  ", 1) for line in (self.folder / SUMS).read_text().splitlines())
        return next(digest for digest, file in rows if file == name)


def object_name(key: str, parent: str) -> str:
    """Return the name of the object of the step ``key`` on the tree ``parent``."""
    return hashlib.sha256(f"{key} {parent}".encode()).hexdigest()


class Damaged(Exception):  # noqa: N818 - callers catch it
    """An object differs from what was stored."""


def parse_size(text: str, where: str) -> int:
    """Return a size such as ``500M`` in bytes; raise ``InputError`` naming ``where`` if invalid."""
    parts = re.fullmatch(r"(?ai)([0-9]{1,15}(?:\.[0-9]+)?) ?(?:([KMGT])i?)?B?", text.strip())
    if parts is None:
        raise InputError(Problem(f"invalid size {text!r}", where, hint="write it like 500M or 8G"))
    return int(float(parts[1]) * _UNITS[(parts[2] or "").upper()])


def size_limit() -> int:
    """Return the size in bytes to which a build prunes the cache."""
    variable = "LUMICONTAINER_CACHE_SIZE"
    named = os.environ.get(variable)
    return parse_size(named, variable) if named else DEFAULT_SIZE


class Cache:
    """Read and write the objects of one cache folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def open(self) -> Cache:
        """Create missing folders; raise ``HostError`` if the cache cannot be written."""
        try:
            make_folders(self.root)
            # Another user may have created the folder meanwhile.
            require_own(self.root)
            if not is_private(self.root):
                raise _not_private(self.root, "it is not a folder of yours with mode 0700")
            for name in ("objects", "listings", "held", "images", "bad", "locks"):
                (self.root / name).mkdir(exist_ok=True, mode=0o700)
            if not os.access(self.root / "locks", os.W_OK):
                raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        except OSError as error:
            other = "name another place with LUMICONTAINER_CACHE"
            raise refused(error, "cannot write to the cache", str(self.root), other) from error
        return self

    def folder(self, name: str) -> Path:
        """Return the folder of an object, which may be missing."""
        return self.root / "objects" / name

    def entry(self, name: str) -> Entry | None:
        """Return an object without verifying it; None if it is missing.

        All facts are read here, because a prune may remove the object at any time.
        """
        folder = self.folder(name)
        try:
            data = json.loads((folder / ENTRY).read_bytes())
            facts = {each: data[each] for each in ("key", "step", "kind", "parent", "inputs")}
            facts["digest"] = _digest((folder / SUMS).read_text())
            size = sum(path.stat().st_size for path in folder.iterdir())
            return Entry(folder, name, **facts, size=size, used=folder.stat().st_mtime)
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
        ``FileNotFoundError`` if it is missing.
        """
        folder = self.folder(name)
        with contextlib.suppress(Damaged):
            prove(folder)
            return ""
        # A build may have replaced it while it was read; with the lock, no build does.
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
        """Return the folders of damaged objects."""
        return sorted((self.root / "bad").glob("*"))

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
        draft = self.root / "objects" / f".{name}"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o700)
        return draft

    def reclaim(self) -> None:
        """Remove the drafts of killed builds."""
        for draft in (self.root / "objects").glob(".*"):
            held = flock.exclusive(self.make_lock(draft.name.split(".")[1]))
            if held is not None:
                shutil.rmtree(draft, ignore_errors=True)
                os.close(held)

    def store(self, draft: Path, about: Mapping[str, Any]) -> Entry:
        """Write the sums of a draft, flush it, and give it its name.

        ``about`` has key, step, kind, parent and inputs. An object with this name is removed; no
        build may use it.
        """
        name = draft.name[1:]
        listing = draft / LISTING
        listed = listing.read_bytes() if listing.exists() else b""
        listing.unlink(missing_ok=True)
        text = json.dumps(about, indent=1, sort_keys=True)
        (draft / ENTRY).write_text(f"{text}\n")
        files = sorted(draft.iterdir())
        sums = "".join(f"{sha256(path)}  {path.name}\n" for path in files)
        (draft / SUMS).write_text(sums)
        for path in (*draft.iterdir(), draft):
            sync(path)
        self._delete(self.folder(name))
        draft.replace(self.folder(name))
        sync(self.root / "objects")
        entry = self.entry(name)
        assert entry is not None
        if listed:
            self.listing(entry).write_bytes(listed)
        return entry

    def listing(self, entry: Entry) -> Path:
        """Return where the list of a layer's files lies; it may be missing or damaged."""
        return self.root / "listings" / entry.digest

    def remove(self, entry: Entry) -> bool:
        """Remove an object unless a build uses it; return whether it was removed."""
        held = flock.exclusive(self.use_lock(entry.name))
        if held is None:
            return False
        self._delete(entry.folder)
        os.close(held)
        return True

    def _delete(self, folder: Path) -> None:
        # Rename first, so that an interrupted removal leaves no incomplete object.
        gone = folder.with_name(f".{folder.name}.gone-{time.time_ns()}")
        with contextlib.suppress(FileNotFoundError):
            folder.replace(gone)
            shutil.rmtree(gone, ignore_errors=True)

    def unused(self, entry: Entry) -> bool:
        """Return whether no build uses an object."""
        held = flock.exclusive(self.use_lock(entry.name))
        if held is not None:
            os.close(held)
        return held is not None

    def made_since(self, name: str, moment: float) -> bool:
        """Return whether an object was built since ``moment``, in seconds since 1970."""
        try:
            return (self.folder(name) / ENTRY).stat().st_mtime >= moment
        except OSError:
            return False

    def prune(self, limit: int, keep: Collection[str] = (), *, dry: bool = False) -> list[Entry]:
        """Remove the least recently used objects until the cache has at most ``limit`` bytes.

        Objects in ``keep`` and objects that a build uses stay. Returns the removed objects; with
        ``dry`` none is removed.
        """
        take = self.unused if dry else self.remove
        entries = sorted(self.entries(), key=lambda entry: entry.used)
        total, gone = sum(entry.size for entry in entries), []
        for entry in entries:
            if total > limit and entry.name not in keep and take(entry):
                total -= entry.size
                gone.append(entry)
        if not dry:
            self._drop_listings()
        return gone

    def _drop_listings(self) -> None:
        kept = {entry.digest for entry in self.entries()}
        for path in (self.root / "listings").iterdir():
            if path.name not in kept:
                path.unlink(missing_ok=True)

    def use_lock(self, name: str) -> Path:
        """Return the file with a shared lock while an object is used."""
        return self.root / "locks" / f"{name}.use"

    def make_lock(self, name: str) -> Path:
        """Return the file that is locked while an object is built."""
        return self.root / "locks" / f"{name}.make"

    def has_passed(self, check: str) -> bool:
        """Return whether a check has passed; ``check`` is the hash of its inputs."""
        return (self.root / "held" / check).exists()

    def note_passed(self, check: str) -> None:
        """Record that a check has passed."""
        (self.root / "held" / check).touch()


def prove(folder: Path) -> None:
    """Raise ``Damaged`` if a byte of an object differs from what was stored.

    Raises ``FileNotFoundError`` if the object is missing.
    """
    if not folder.is_dir():
        raise FileNotFoundError(folder)
    try:
        # Not splitlines(), which accepts a damaged line end as another kind of it.
        lines = (folder / SUMS).read_bytes().decode().removesuffix("\n").split("\n")
        rows = [line.split("  ", 1) for line in lines]
        named = {name: digest for digest, name in rows}
        found = {path.name for path in folder.iterdir()} - {SUMS}
        if found != named.keys():
            raise Damaged(f"its files differ from its sums: {sorted(found ^ named.keys())}")
        for name, digest in named.items():
            if sha256(folder / name) != digest:
                raise Damaged(f"{name} has changed: its sha256 differs")
        about = json.loads((folder / ENTRY).read_bytes())
        if object_name(about["key"], about["parent"]) != folder.name:
            raise Damaged("it belongs to another object")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Damaged(str(error)) from error


def _digest(sums: str) -> str:
    rows = [line for line in sums.splitlines() if not line.endswith(f"  {ENTRY}")]
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()


def _not_private(root: Path, why: str) -> HostError:
    # Path.is_dir raises where a folder above is closed (Python 3.11).
    there = os.path.isdir(root)  # noqa: PTH112
    private = f"chmod 700 {shlex.quote(str(root))}, or " if there else ""
    hint = f"{private}name another place with LUMICONTAINER_CACHE"
    return HostError(Problem("the cache is not private", str(root), why, hint))


def sha256(path: Path) -> str:
    """Return the sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
