"""Unpack an image file without root, and record who owns its files.

Usage: python -m lumicontainer.build.runtimes.unpack_file FILE TREE RECORD

RECORD gets the owners by inode, as ``build.tree.owners`` writes them.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from lumicontainer.image import sif
from lumicontainer.system import budget, process
from lumicontainer.system.os_errors import guarded

_ROW = re.compile(r"([-d])([rwxsStT-]{9}) +(\d+)/(\d+) +\d+ [\d-]+ [\d:]+ /*(.*)")
"""A file or a folder in the list of unsquashfs: its mode, its owner, its path."""


def mode_of(text: str) -> int:
    """Return the mode that a list shows as ``rwxr-sr-x``."""
    found = 0
    for place, letter in enumerate(text):
        if letter not in "-ST":
            found |= 0o400 >> place
        if letter in "sStT":
            found |= 0o4000 >> place // 3
    return found


def settle(tree: Path, listed: str) -> Iterator[str]:
    """Set the modes that unsquashfs sets only for root; yield the rows of the record."""
    for row in reversed([found for line in listed.splitlines() if (found := _ROW.fullmatch(line))]):
        _, mode, user, group, path = row.groups()
        there = tree / path
        # A name with a newline or a link on the way is none of the list's.
        if there.is_symlink() or not there.resolve().is_relative_to(tree) or not there.exists():
            continue
        there.chmod(mode_of(mode))
        if (user, group) != ("0", "0"):
            yield f"{there.lstat().st_ino} {user} {group}\n"


def main() -> None:
    """Read the command line."""
    file, tree, record = map(Path, sys.argv[1:])
    options = ["-offset", str(sif.root(file).offset), "-dest"]
    words = ["-quiet", "-no-progress", "-no-xattrs", "-force"]
    process.capture(["unsquashfs", *words, *options, str(tree), str(file)], limits=budget.FILES)
    listed = process.capture(["unsquashfs", "-lln", *options, "/", str(file)], limits=budget.FILES)
    record.write_text("".join(settle(tree.resolve(), listed)))


if __name__ == "__main__":
    sys.exit(guarded(main))
