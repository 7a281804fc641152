"""Unpack an image file of others.

Usage: python -m lumicontainer.build.tree.foreign.unpack_file FILE TREE RECORD

TREE is new. RECORD gets the owners by inode that an ordinary user cannot give, as
``build.tree.owners`` writes them.
"""

import os
import re
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from lumicontainer.build.tree.foreign.refusal import refusal
from lumicontainer.build.tree.foreign.settle import settle
from lumicontainer.build.tree.foreign.tree import MOST_MEMBERS, Owned, Tree, require_path
from lumicontainer.image import sif
from lumicontainer.system import budget, process
from lumicontainer.system.os_errors import guarded

_ROW = re.compile(r"([-dlbcps])([rwxsStT-]{9}) +(\d+)/(\d+) +(?:\d+|\d+, *\d+) [\d-]+ [\d:]+ (/.*)")
"""A path in the list of unsquashfs: its kind, its mode, its owner, and where it is."""


class Listed(NamedTuple):
    """Hold a path of an image file."""

    kind: str
    mode: int
    uid: int
    gid: int
    path: str


def mode_of(text: str) -> int:
    """Return the mode that a list shows as ``rwxr-sr-x``."""
    found = 0
    for place, letter in enumerate(text):
        if letter not in "-ST":
            found |= 0o400 >> place
        if letter in "sStT":
            found |= 0o4000 >> place // 3
    return found


def read_rows(listed: str) -> Iterator[Listed]:
    """Yield the paths of a list; a name with a newline may look like more than one."""
    for line in listed.split("\n"):
        if found := _ROW.fullmatch(line):
            kind, mode, user, group, path = found.groups()
            path = path.partition(" -> ")[0] if kind == "l" else path
            yield Listed(kind, mode_of(mode), int(user), int(group), path)


def require_names(names: Iterable[str]) -> None:
    """Raise ``InputError`` if unsquashfs would write outside its folder, or twice to one path.

    Releases before 4.5.1 follow a link that has the name of a folder (CVE-2021-41072), and take
    ``..`` for a name (CVE-2021-40153).
    """
    seen: set[str] = set()
    for name in names:
        path = name.lstrip("/")
        if not name.startswith("/") or not path:
            continue  # The root, or the rest of a name with a newline.
        parts = path.split("/")
        if any(each in ("", ".", "..") for each in parts):
            raise refusal(name, "it leads out of the image's tree")
        require_path(name, parts)
        if path in seen:
            raise refusal(name, "the image has it twice")
        seen.add(path)
        if len(seen) > MOST_MEMBERS:
            raise refusal(name, f"the image has more than {MOST_MEMBERS} files")


def note_owners(tree: Tree, rows: Iterable[Listed]) -> None:
    """Note owners, set the modes that unsquashfs sets only for root, and open closed folders."""
    for row in rows:
        there = tree.look(row.path)
        if not there:
            continue
        if row.kind == "d" and stat.S_ISDIR(there.st_mode):
            tree.owned[there.st_ino] = Owned(row.uid, row.gid, row.mode)
            tree.set_mode(row.path, row.mode | stat.S_IRWXU)
        elif row.kind == "l" or stat.S_ISREG(there.st_mode):
            tree.owned[there.st_ino] = Owned(row.uid, row.gid)
            if row.kind == "-":
                tree.set_mode(row.path, row.mode)


def unpack(file: Path, root: Path) -> Tree:
    """Unpack the file system of an image file, without its devices, into a new folder."""
    place = ["-offset", str(sif.root(file).offset)]
    names = _list(["-ls", *place], file)
    require_names(names.split("\n"))
    rows = list(read_rows(_list(["-lln", *place], file)))
    special = [row.path for row in rows if row.kind in "bcps"]
    root.mkdir()
    root.chmod(0o755)
    with tempfile.NamedTemporaryFile() as left_out:
        left_out.write(os.fsencode("".join(f"{path.lstrip('/')}\n" for path in special)))
        left_out.flush()
        without = ["-no-wildcards", "-exclude-file", left_out.name] if special else []
        words = ["-quiet", "-no-progress", "-no-xattrs", "-force", *without]
        command = ["unsquashfs", *words, *place, "-dest", str(root), str(file)]
        process.capture(command, limits=budget.FILES)
    tree = Tree(root)
    if not tree.as_root:
        note_owners(tree, rows)
    return tree


def _list(words: Sequence[str], file: Path) -> str:
    command = ["unsquashfs", *words, "-dest", "/", str(file)]
    return os.fsdecode(process.capture_bytes(command, limits=budget.FILES))


def main() -> None:
    """Read the command line."""
    file, root, record = map(Path, sys.argv[1:])
    os.umask(0o022)
    rows = settle(unpack(file, root))
    if os.geteuid():
        record.write_text("".join(rows))


if __name__ == "__main__":
    sys.exit(guarded(main))
