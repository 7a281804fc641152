"""A tree of an image whose layers are one file after the other, for checks that read it."""

import os
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from lumicontainer.image.assembly import layout
from lumicontainer.image.assembly.assemble import merge_layers
from lumicontainer.image.assembly.content import Files
from lumicontainer.image.assembly.layout import FILE, FOLDER, LINK, STORED_DATA, Superblock
from lumicontainer.image.assembly.reader import Squashfs
from lumicontainer.image.assembly.tree import Node

HEAD = Superblock(layout.MAGIC, 0, 0, 1 << 17, 0, layout.ZSTD, 17, *[0] * 12)


class At(NamedTuple):
    """Hold what is at a path: a file, unless it is a link, a folder or a removal."""

    path: str
    content: bytes = b"a"
    mode: int = 0o644
    target: bytes = b""

    def node(self, start: int) -> Node:
        if self.target:
            return Node(LINK, 0o777, 0, 0, 0, target=self.target)
        if stat.S_ISDIR(self.mode):
            return Node(FOLDER, self.mode & 0o7777, 0, 0, 0)
        if stat.S_ISCHR(self.mode):
            return Node(layout.CHARACTER, 0, 0, 0, 0)
        size = len(self.content)
        blocks = (size | STORED_DATA,)
        return Node(FILE, self.mode, 0, 0, 0, size=size, start=start, blocks=blocks)


def removed(path: str) -> At:
    return At(path, mode=stat.S_IFCHR)


def folder(path: str, mode: int = 0o755) -> At:
    return At(path, mode=stat.S_IFDIR | mode)


def link(path: str, target: bytes) -> At:
    return At(path, target=target)


def image_of(place: Path, layers: Iterable[Sequence[At]]) -> Files:
    """Return the files of an image of layers, the lowest first, and of its records."""
    place.mkdir()
    made = [_layer(place / str(n), n, each) for n, each in enumerate((*layers, [At("/record")]))]
    return Files(merge_layers(made), made)


def _layer(file: Path, number: int, entries: Iterable[At]) -> Squashfs:
    root, files, data = Node(FOLDER, 0o755, 0, 0, 0), list[Node](), b""
    for each in entries:
        node = each.node(len(data))
        node.layer = number
        data += each.content
        *above, name = os.fsencode(each.path).strip(b"/").split(b"/")
        here = root
        for part in above:
            here = here.children.setdefault(part, Node(FOLDER, 0o755, 0, 0, 0))
        here.children[name] = node
        files += [node] if node.kind == FILE else []
    file.write_bytes(data)
    return Squashfs(file, 0, HEAD, root, (), files)
