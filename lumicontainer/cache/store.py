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
    ├── bad/<name>-<time>/      a damaged object with the reason
    └── locks/<name>.{use,make}

The name of an object is the hash of its step's key and of the tree below it. An object gets its
name when it is complete and flushed, and all its bytes are verified before use.
"""

import contextlib
import errno
import hashlib
import json
import math
import os
import shutil
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path
from typing import Any, Self

from lumicontainer.cache import drafts, pruning, written
from lumicontainer.system import flock
from lumicontainer.system.files.ages import seconds_since
from lumicontainer.system.files.regular import open_no_link
from lumicontainer.system.files.trust import make_private_folders
from lumicontainer.system.files.user_cache import require_private, unwritable
from lumicontainer.system.files.write import sync
from lumicontainer.system.os_errors import refused

LAYER, INDEX, ENTRY, SUMS = "layer.squashfs", "files.json", "entry.json", "sums"
IMAGE = "image"
"""In the layer of a base that is an image file: where the data are that the layer does not have."""
IN_PLACE, PACKED = "in the file", "packed again"
FILES, PACKED_IMAGE, GZIP_IMAGE = "files", "image", "gzip image"
"""The kinds of objects made of an image file: the index, and the file system packed again."""
LARGEST = 16 << 20
"""Bytes of a file that is read before its digest is known."""
_FOLDERS = ("objects", "held", "images", "bad", "locks")
UNREADABLE = "repeat the command; if it fails again, remove this folder: a build makes it again"


@dataclass(frozen=True)
class Entry:
    """Hold the facts of one object."""

    folder: Path
    name: str
    key: str
    step: str
    kind: str
    """``layer``, ``wheels``, ``gzip`` (a layer in that compression), or made of an image file."""
    parent: str
    """The ``tree`` below it; empty for a base."""
    inputs: Mapping[str, Any]
    digest: str
    """The digest of all its files except ``entry.json``."""
    size: int = field(compare=False)
    used: float = field(compare=False)
    """The time of its last use, in seconds since 1970."""
    publisher: str = field(default="", compare=False)
    """Who vouches for an object of a shared cache."""

    @property
    def tree(self) -> str:
        """Return the digest of the tree of a layer and all layers below it."""
        return hashlib.sha256(f"{self.parent} {self.digest}".encode()).hexdigest()

    @property
    def shown(self) -> str:
        """Return the name of its step in a build."""
        return step_name(self.step, self.kind)

    @property
    def layer(self) -> Path:
        """Return the squashfs of a layer."""
        return self.folder / LAYER

    @property
    def image_form(self) -> str:
        """Return where the data of a base's image file are; empty if its layer has them."""
        try:
            return (self.folder / IMAGE).read_text().strip()
        except OSError:
            return ""

    def sha256(self, name: str) -> str:
        """Return the recorded sha256 of one of its files."""
        rows = (line.split("  ", 1) for line in (self.folder / SUMS).read_text().splitlines())
        return next(digest for digest, file in rows if file == name)


def object_name(key: str, parent: str) -> str:
    """Return the name of the object of the step ``key`` on the tree ``parent``."""
    return hashlib.sha256(f"{key} {parent}".encode()).hexdigest()


def conversion_key(entry: Entry, compression: str) -> str:
    """Return the key of a layer's copy in another compression."""
    return hashlib.sha256(f"{compression} {entry.digest}".encode()).hexdigest()


def image_key(kind: str, image: str) -> str:
    """Return the key of an object made of an image file."""
    return hashlib.sha256(f"{kind} {image}".encode()).hexdigest()


_SHOWN = {"wheels": "compile", "gzip": "gzip"}
_SHOWN |= {FILES: "read files", PACKED_IMAGE: "pack again", GZIP_IMAGE: "pack as gzip"}


def step_name(step: str, kind: str) -> str:
    """Return the name in a build of the step that makes an object."""
    return f"{step}: {_SHOWN[kind]}" if kind in _SHOWN else step


class Damaged(Exception):  # noqa: N818 - callers catch it
    """An object differs from what was stored."""


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
        self, limit: int, keep: Collection[str] = (), *, before: float = 0, dry: bool = False
    ) -> list[Entry]:
        """Remove objects as ``pruning.prune`` does; return them, and keep all if ``dry`` is set.

        Objects in ``keep`` and objects that a build uses stay.
        """

        def remove(entry: Entry) -> bool:
            return entry.name not in keep and self.remove(entry.name, dry=dry)

        return pruning.prune(self.entries(), remove, limit=limit, before=before)

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


def parse_entry(folder: Path, about: bytes, sums: bytes, *, size: int, used: float) -> Entry | None:
    """Return the object of ``folder`` with the content of its two records; None if invalid."""
    try:
        facts = _facts(about)
        rows = [row for row in sums.decode().splitlines() if not row.endswith(f"  {ENTRY}")]
        digest = hashlib.sha256("\n".join(rows).encode()).hexdigest()
        return Entry(folder, folder.name, **facts, digest=digest, size=size, used=used)
    except ValueError:
        return None


def _facts(about: bytes) -> dict[str, Any]:
    """Return what an object says about itself; raise ``ValueError`` if that is damaged."""
    try:
        data = json.loads(about)
        facts = {each: data[each] for each in ("key", "step", "kind", "parent", "inputs")}
        # A lone surrogate could be neither hashed nor printed.
        json.dumps(facts, ensure_ascii=False).encode()
    except (KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{ENTRY} is invalid: {error}") from error
    texts = (facts[each] for each in ("key", "step", "kind", "parent"))
    if not all(isinstance(each, str) for each in texts):
        raise ValueError(f"{ENTRY} has a value of another type")
    if not isinstance(facts["inputs"], dict):
        raise ValueError(f"{ENTRY} has inputs of another type")
    return facts


def _read(path: Path) -> bytes:
    with open_no_link(path) as file:
        return file.read(LARGEST)


def prove(folder: Path, name: str = "") -> None:
    """Raise ``Damaged`` if a byte of an object differs, ``FileNotFoundError`` if it is missing.

    ``name`` is its name if that of the folder differs. Raises ``OSError`` if the system cannot read
    it, such as a client that lost its server for a moment.
    """
    if not folder.is_dir():
        raise FileNotFoundError(folder)
    try:
        names = {path.name for path in folder.iterdir()}
        prove_files(names, lambda file: open_no_link(folder / file), name or folder.name)
    except OSError as error:
        # It is missing, or no file: a folder, a link, a pipe.
        if error.errno in (None, errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO):
            raise Damaged(str(error)) from error
        raise


def _prove(folder: Path) -> None:
    try:
        prove(folder)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise refused(error, "cannot read the cache", str(folder), UNREADABLE) from error


def prove_files(names: Collection[str], opened: Callable[[str], BufferedReader], name: str) -> None:
    """Raise ``Damaged`` if a byte of the files of the object ``name`` differs."""

    def read(file: str) -> bytes:
        with opened(file) as stream:
            return stream.read(LARGEST)

    named, present = sums_of(read(SUMS)), {*names} - {SUMS}
    if present != named.keys():
        raise Damaged(f"its files differ from its sums: {sorted(present ^ named.keys())}")
    for file, digest in named.items():
        with opened(file) as stream:
            if hashlib.file_digest(stream, "sha256").hexdigest() != digest:
                raise Damaged(f"{file} has changed: its sha256 differs")
    try:
        about = _facts(read(ENTRY))
        if object_name(about["key"], about["parent"]) != name:
            raise Damaged("it belongs to another object")
    except ValueError as error:
        raise Damaged(str(error)) from error


def sums_of(content: bytes) -> dict[str, str]:
    """Return the sha256 of each file that sums name; raise ``Damaged`` if they are invalid."""
    try:
        # Not splitlines(), which accepts a damaged line end as another kind of it.
        rows = [line.split("  ", 1) for line in content.decode().removesuffix("\n").split("\n")]
        named = {name: digest for digest, name in rows}
    except ValueError as error:
        raise Damaged(f"its sums are invalid: {error}") from error
    if len(named) < len(rows):
        raise Damaged("its sums name a file twice")
    if strange := next(filter(_is_strange, named), ""):
        raise Damaged(f"invalid name of a file: {strange[:60]!a}")
    return named


def _is_strange(name: str) -> bool:
    return "/" in name or "\0" in name or name in (".", "..")


def sha256(path: Path) -> str:
    """Return the sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
