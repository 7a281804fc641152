"""Find shared libraries below a root where the dynamic loader would, see ld.so(8).

It skips the variants for newer processors (glibc-hwcaps), which are the same libraries.
"""

from __future__ import annotations

import glob
import json
import os
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from .reader import Elf, UnreadableError, elf_from_plain, read, to_plain

CONFIGURATION = "/etc/ld.so.conf"
# The folders that Debian's and SUSE's loaders search by default.
DEFAULTS = (
    *("/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu"),
    *("/lib64", "/usr/lib64", "/lib", "/usr/lib"),
)
VARIABLE = "LD_LIBRARY_PATH"
_MAX_LINKS = 40
_LIB = ("lib64", "lib/x86_64-linux-gnu")  # the values of $LIB on SUSE and on Debian


class Library(NamedTuple):
    """A found library: its path below the root, and its content."""

    name: str
    path: str
    elf: Elf = Elf()
    own: bool = False  # whether a path in the file that needs it (RPATH, RUNPATH) led to it


class Tree:
    """Find libraries below ``root``, which is / for the programs.

    ``first`` are folders to search before those of the system (LD_LIBRARY_PATH), ``last`` after
    them. ``reader`` reads a file: ``read``, or ``linked`` without symbols. ``readlink`` is as in
    ``os``.
    """

    def __init__(
        self,
        root: str,
        first: Sequence[str] = (),
        last: Sequence[str] = (),
        *,
        reader: Callable[[str], Elf] = read,
        readlink: Callable[[str], str] = os.readlink,
    ) -> None:
        self.root = root.rstrip("/")
        self._reader = reader
        self._readlink = readlink
        self._targets: dict[str, str | None] = {}
        self.first = tuple(first)
        self.configurations: list[str] = []
        """The paths and patterns of the files that configure the loader."""
        self.after = (*self._configured(CONFIGURATION), *DEFAULTS, *last)
        self._read: dict[str, Elf | None] = {}

    def find(self, name: str, askers: Sequence[Library] = ()) -> Library | None:
        """Return the library of a name or a path; None if it is not found.

        ``askers`` is the file that needs it, then the one that needs that, and so on. Files that
        are not for x86-64 are skipped, as the loader does.
        """
        if "/" in name:
            elf = self._elf(name)
            return Library(os.path.basename(name), name, elf) if elf else None
        for folder, own in self._folders(askers):
            # ".." is above the target of a link.
            real = self.file(folder)[len(self.root) :] if ".." in folder else folder
            path = os.path.join("/", real, name)
            elf = self._elf(path)
            if elf:
                return Library(name, path, elf, own)
        return None

    def file(self, path: str) -> str:
        """Return the real path of a path of the tree; its links stay below the root."""
        done, links = "", 0
        parts = deque(path.split("/"))
        while parts:
            part = parts.popleft()
            if part == "..":
                done = os.path.dirname(done).rstrip("/")
            elif part not in ("", "."):
                here = done + "/" + part
                target = self._target(here)
                if target is None:
                    done = here
                    continue
                links += 1
                if links > _MAX_LINKS:
                    break
                done = "" if target.startswith("/") else done
                parts.extendleft(reversed(target.split("/")))
        return self.root + (done or "/")

    def _target(self, path: str) -> str | None:
        """Return the target of a link, None for other paths; ask for each path once."""
        if path not in self._targets:
            try:
                self._targets[path] = self._readlink(self.root + path)
            except OSError:
                self._targets[path] = None
        return self._targets[path]

    def _folders(self, askers: Sequence[Library]) -> Iterator[tuple[str, bool]]:
        if askers and not askers[0].elf.runpath:
            for asker in askers:
                if not asker.elf.runpath:
                    yield from ((each, True) for each in _expanded(asker.elf.rpath, asker))
        yield from ((each, False) for each in self.first)
        if askers:
            yield from ((each, True) for each in _expanded(askers[0].elf.runpath, askers[0]))
        yield from ((each, False) for each in self.after)

    def _elf(self, path: str) -> Elf | None:
        if path not in self._read:
            try:
                self._read[path] = self._reader(self.file(path))
            except (OSError, UnreadableError):
                self._read[path] = None
        return self._read[path]

    def _configured(self, name: str) -> Iterator[str]:
        real = self.file(name)
        self.configurations += [name, real[len(self.root) :]]
        try:
            with open(real, encoding="utf-8", errors="replace") as file:
                lines = file.read().splitlines()
        except OSError:
            return
        for line in lines:
            words = line.partition("#")[0].split()
            if words[:1] == ["include"]:
                for pattern in words[1:]:
                    paths = os.path.join(os.path.dirname(name), pattern)
                    self.configurations.append(paths)
                    for path in sorted(glob.glob(glob.escape(self.root) + paths)):
                        yield from self._configured(path[len(self.root) :])
            elif words and words[0].startswith("/"):
                yield words[0]


def _expanded(folders: Sequence[str], asker: Library) -> Iterator[str]:
    origin = os.path.dirname(asker.path)
    for folder in folders:
        text = folder.replace("${ORIGIN}", origin).replace("$ORIGIN", origin)
        text = text.replace("${LIB}", "$LIB")
        yield from (text.replace("$LIB", lib) for lib in (_LIB if "$LIB" in text else ("",)))


def describe(names: Sequence[str]) -> dict[str, Any]:
    """Return as plain data the libraries that programs find here under ``names``."""
    folders = [each for each in os.environ.get(VARIABLE, "").split(":") if each]
    tree = Tree("/", first=folders)
    pairs = ((name, tree.find(name)) for name in names)
    libraries = {n: {"path": each.path, "elf": to_plain(each.elf)} for n, each in pairs if each}
    return {"folders": folders, "libraries": libraries}


def libraries_of(data: Mapping[str, Any]) -> dict[str, Library]:
    """Return the libraries of ``describe``, by the requested names."""
    return {
        name: Library(os.path.basename(name), row["path"], elf_from_plain(row["elf"]))
        for name, row in data["libraries"].items()
    }


def main() -> None:
    """Print as JSON the libraries that programs find under the names on the command line."""
    json.dump(describe(sys.argv[1:]), sys.stdout)
