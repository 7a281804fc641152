"""Pack the file system of an image file again, without root and without its files on the disk."""

import re
from pathlib import Path

from lumicontainer.image import squashfs
from lumicontainer.image.assembly.assemble import Source
from lumicontainer.sandbox.tree.foreign.refusal import refusal
from lumicontainer.system import budget, process

_DATA = b"# START OF DATA - DO NOT MODIFY\n"
_LINE = re.compile(
    rb"(?!#)(?:\\.|[^\s\\\"])+ (?:[DRCBI](?: [0-9sf]+)+|L .*|S(?: [0-9]+){4} .*)\n|#\n"
)
"""A line of a pseudo file (mksquashfs(1)) that describes one path. Others may name a command, which
mksquashfs would run: a name with a newline can look like two lines. One that begins with # would be
a comment, and its file lost."""


def repack(source: Source, target: Path, listed: Path) -> None:
    """Write a squashfs with the blocks and tables of a layer; ``listed`` is a file for its data.

    Raises ``InputError`` for names and links that the list cannot hold.
    """
    words = ["-offset", str(source.offset), "-pf", str(listed), str(source.path)]
    process.capture(["unsquashfs", "-no-xattrs", *words], limits=budget.FILES)
    _require_plain(listed)
    command = squashfs.squash_command(Path("-"), target)
    squashfs.pack([*command, "-no-progress", "-pf", str(listed)], target)
    listed.unlink()


def _require_plain(listed: Path) -> None:
    with listed.open("rb") as file:
        for line in file:
            if line == _DATA:
                return
            if not _LINE.fullmatch(line):
                raise refusal(line.decode(errors="replace"), "its name or its target is invalid")
    raise refusal("", "its list of files ends early")
