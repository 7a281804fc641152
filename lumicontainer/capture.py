"""Make a layer of what a step left in the upper folder of its overlay. Runs in a user namespace.

Usage: python -m lumicontainer.capture UPPER INDEX [--below INDEX]... [--drop PATH]...
           [--secret FILE]...

The upper folder is brought into a form that depends neither on the overlay that wrote it nor on the
host: whiteouts for all that is gone, no opaque folders, hard links whole, nothing that is as it was
below. Then its index is written.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lumicontainer.files import (
    DEVICE,
    FILE,
    FOLDER,
    GONE,
    SYMLINK,
    Node,
    Row,
    kind_of,
    merge,
    read_index,
    write_index,
)
from lumicontainer.secrets import patterns

# fuse-overlayfs writes the first and the marks, the kernel's overlay the others.
_OPAQUE = ("user.fuseoverlayfs.opaque", "user.overlay.opaque", "trusted.overlay.opaque")
_OPAQUE_MARKS = {".wh..wh..opq", ".wh..opq"}
_GONE_MARK = ".wh."
LEAKS = "leaks"
_ORIGIN = "user.fuseoverlayfs.origin"
"""Holds the path below from which fuse-overlayfs copied a file before it was changed."""


@dataclass
class Capture:
    """Hold the upper folder while it is brought into form."""

    upper: Path
    below: Node
    secrets: Sequence[bytes] = ()
    rows: dict[str, Row] = field(default_factory=dict)
    leaks: list[str] = field(default_factory=list)
    _inodes: dict[int, list[str]] = field(default_factory=dict)
    _opaque: list[str] = field(default_factory=list)

    def run(self, drop: Iterable[str]) -> dict[str, Row]:
        """Bring the folder into form and return its index."""
        for path in drop:
            self._drop(path)
        self._scan(self.upper, "")
        for path in self._opaque:
            self._hide_below(path)
        self._link()
        self._forget_unchanged()
        return self.rows

    def _drop(self, path: str) -> None:
        """Remove the empty folders that an engine made to bind a host's folder."""
        parts = path.strip("/").split("/")
        for length in range(len(parts), 0, -1):
            name = "/".join(parts[:length])
            folder = self.upper / name
            if self.below.find(name) or not folder.is_dir() or any(_real(folder)):
                return
            for mark in folder.iterdir():
                mark.unlink()
            folder.rmdir()

    def _scan(self, folder: Path, prefix: str) -> None:
        for entry in sorted(folder.iterdir()):
            name, path = entry.name, prefix + entry.name
            if name in _OPAQUE_MARKS:
                entry.unlink()
            elif name.startswith(_GONE_MARK):
                entry.unlink()
                self._whiteout(prefix + name.removeprefix(_GONE_MARK))
            else:
                self._note(entry, path)

    def _note(self, entry: Path, path: str) -> None:
        info = entry.lstat()
        if stat.S_ISCHR(info.st_mode) and info.st_rdev == 0:
            if self._is_below(path):
                self.rows[path] = Row(GONE)
            else:
                entry.unlink()
            return
        kind = kind_of(info)
        what = self._what(entry, kind, info)
        self.rows[path] = Row(kind, stat.S_IMODE(info.st_mode), info.st_uid, info.st_gid, what)
        if kind == FOLDER:
            if _is_opaque(entry):
                self._opaque.append(path)
            self._scan(entry, f"{path}/")
        elif kind == FILE:
            self._inodes.setdefault(info.st_ino, []).append(path)

    def _what(self, entry: Path, kind: str, info: os.stat_result) -> str:
        if kind == FILE:
            content = entry.read_bytes()
            if any(secret in content for secret in self.secrets):
                self.leaks.append(f"/{entry.relative_to(self.upper)}")
            return hashlib.sha256(content).hexdigest()
        if kind == SYMLINK:
            return str(entry.readlink())
        return f"{info.st_rdev:x}" if kind == DEVICE else ""

    def _is_below(self, path: str) -> bool:
        """Tell whether ``path`` shows through from below, if this layer did not hold it."""
        parts = path.split("/")
        for length in range(1, len(parts)):
            row = self.rows.get("/".join(parts[:length]))
            if row and row.kind != FOLDER:
                return False
        return self.below.find(path) is not None

    def _whiteout(self, path: str) -> None:
        if path not in self.rows and self._is_below(path):
            os.mknod(self.upper / path, stat.S_IFCHR, 0)
            self.rows[path] = Row(GONE)

    def _hide_below(self, path: str) -> None:
        """Say of an opaque folder, name by name, what of the folder below it is gone."""
        node = self.below.find(path)
        for name in node.children if node else ():
            row = self.rows.get(f"{path}/{name}")
            if row and row.kind == FOLDER:
                self._hide_below(f"{path}/{name}")
            self._whiteout(f"{path}/{name}")

    def _link(self) -> None:
        """Make hard links whole: those in the layer, and those that the overlay tore apart.

        Of a file with several names below, fuse-overlayfs shows one file under all of them, but
        keeps a change of it under one.
        """
        groups = self._groups_below()
        for paths in self._inodes.values():
            origin = self._origin(self.upper / paths[0])
            node = self.below.find(origin) if origin else None
            for other in groups.get(node.row.link, ()) if node and node.row.link else ():
                if other not in self.rows and self._is_below(other):
                    self._make_folders(other)
                    os.link(self.upper / paths[0], self.upper / other)
                    paths.append(other)
            if len(paths) > 1:
                row = self.rows[paths[0]]._replace(link=min(paths))
                self.rows.update(dict.fromkeys(paths, row))

    def _groups_below(self) -> dict[str, list[str]]:
        groups: dict[str, list[str]] = {}
        for path, node in self.below.walk():
            if node.row.link:
                groups.setdefault(node.row.link, []).append(path)
        return groups

    def _origin(self, entry: Path) -> str:
        try:
            value = os.getxattr(entry, _ORIGIN, follow_symlinks=False)
        except OSError:
            return ""
        return os.fsdecode(value.rstrip(b"\0"))

    def _make_folders(self, path: str) -> None:
        parts = path.split("/")
        for length in range(1, len(parts)):
            name = "/".join(parts[:length])
            node = self.below.find(name)
            if name in self.rows or node is None:
                continue
            row = node.row
            (self.upper / name).mkdir()
            os.chown(self.upper / name, row.uid, row.gid)
            (self.upper / name).chmod(row.mode)
            self.rows[name] = row

    def _forget_unchanged(self) -> None:
        """Leave out what is as it was below, such as a folder whose changed files went again."""
        for path in sorted(self.rows, reverse=True):
            row, node = self.rows[path], self.below.find(path)
            if row.link or node is None or node.row != row or not self._is_below(path):
                continue
            entry = self.upper / path
            if row.kind != FOLDER:
                entry.unlink()
            elif any(_real(entry)):
                continue
            else:
                entry.rmdir()
            del self.rows[path]


def _real(folder: Path) -> Iterator[Path]:
    """Yield what a folder holds beside the marks of an overlay."""
    return (entry for entry in folder.iterdir() if entry.name not in _OPAQUE_MARKS)


def _is_opaque(folder: Path) -> bool:
    if any((folder / mark).exists() for mark in _OPAQUE_MARKS):
        return True
    try:
        names = os.listxattr(folder)
    except OSError:
        return False
    return any(name in names for name in _OPAQUE)


def leaking(folder: Path, paths: Iterable[str], secrets: Sequence[bytes]) -> list[str]:
    """Return the files in a folder in which a secret stands."""
    if not secrets:
        return []
    files = [path for path in paths if (folder / path).is_file()]
    return [
        f"/{path}"
        for path in files
        if any(secret in (folder / path).read_bytes() for secret in secrets)
    ]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a capture."""
    parser.add_argument("--drop", action="append", default=[])
    parser.add_argument("--secret", type=Path, action="append", default=[])


def capture(
    upper: Path, index: Path, below: Node, *, drop: Sequence[str], secrets: Iterable[Path]
) -> None:
    """Bring an upper folder into form and write its index.

    The files in which a secret stands are listed beside the index.
    """
    work = Capture(upper, below, patterns(secrets))
    write_index(index, work.run(drop))
    if work.leaks:
        index.with_name(LEAKS).write_text("\n".join(work.leaks))


def main(words: Sequence[str] | None = None) -> None:
    """Capture one layer."""
    parser = argparse.ArgumentParser()
    parser.add_argument("upper", type=Path)
    parser.add_argument("index", type=Path)
    parser.add_argument("--below", type=Path, action="append", default=[])
    add_options(parser)
    given = parser.parse_args(words)
    below = merge(map(read_index, given.below))
    capture(given.upper, given.index, below, drop=given.drop, secrets=given.secret)


if __name__ == "__main__":
    main()
