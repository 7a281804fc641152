"""Write small layers, and read the files of a squashfs, without mksquashfs."""

import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from lumicontainer.image.assembly import layout, reader, tree
from lumicontainer.image.assembly.content import read_content
from lumicontainer.image.assembly.layout import FILE, FOLDER, LINK, NOTHING, STORED_DATA
from lumicontainer.image.assembly.reader import Fragment, Squashfs
from lumicontainer.image.assembly.tree import Node
from lumicontainer.image.assembly.writer import Encoding, Placed, write_tables

BLOCK_SIZE = 4096
FORM = Encoding(layout.GZIP, BLOCK_SIZE, 0)


@dataclass(eq=False)
class File:
    """Hold a file; two names of one object are hard links."""

    content: bytes
    mode: int = 0o644


@dataclass(frozen=True)
class Special:
    """Hold a device, a pipe or a socket."""

    kind: int
    device: int = 0


@dataclass(frozen=True)
class Zeros:
    """Hold a file of zeros, which takes no block; its size is a multiple of a block's."""

    size: int


@dataclass(eq=False)
class Tree:
    """Hold a folder: by name a file or its content, a folder, the target of a link, or None.

    None removes the path from the layers below.
    """

    entries: "dict[bytes, Entry]"
    mode: int = 0o755


Entry = File | Tree | Special | Zeros | bytes | str | None


@dataclass
class _Writer:
    file: BinaryIO
    tails: bool
    places: dict[int, Placed] = field(default_factory=dict)
    nodes: dict[int, Node] = field(default_factory=dict)
    fragments: list[Fragment] = field(default_factory=list)
    ends: bytes = b""

    def node(self, entry: Entry) -> Node:
        if entry is None:
            return Node(layout.CHARACTER, 0, 0, 0, 0)
        if isinstance(entry, Special):
            return Node(entry.kind, 0o600, 0, 0, 0, device=entry.device)
        if isinstance(entry, Zeros):
            return self.zeros(entry.size)
        if isinstance(entry, str):
            return Node(LINK, 0o777, 0, 0, 0, target=entry.encode())
        if isinstance(entry, Tree):
            children = {name: self.node(each) for name, each in entry.entries.items()}
            return Node(FOLDER, entry.mode, 0, 0, 0, children)
        if isinstance(entry, bytes):
            return self.write(File(entry))
        if id(entry) not in self.nodes:
            self.nodes[id(entry)] = self.write(entry)
        return self.nodes[id(entry)]

    def zeros(self, size: int) -> Node:
        node = Node(FILE, 0o644, 0, 0, 0, size=size, sparse=size)
        node.blocks = (0,) * (size // BLOCK_SIZE)
        self.places[id(node)] = Placed(0, NOTHING, 0)
        return node

    def write(self, file: File) -> Node:
        node = Node(FILE, file.mode, 1000, 100, 7, size=len(file.content))
        start = self.file.tell()
        end = len(file.content) // BLOCK_SIZE * BLOCK_SIZE if self.tails else len(file.content)
        parts = [file.content[at : at + BLOCK_SIZE] for at in range(0, end, BLOCK_SIZE)]
        node.blocks = tuple(self.block(part) for part in parts)
        tail, number, offset = file.content[end:], NOTHING, 0
        if tail:
            if len(self.ends) + len(tail) > BLOCK_SIZE:
                self.flush()
            number, offset = len(self.fragments), len(self.ends)
            self.ends += tail
        self.places[id(node)] = Placed(start if node.blocks else 0, number, offset)
        return node

    def block(self, content: bytes) -> int:
        """Write a block of a file; one of zeros is not stored."""
        return self.store(content) if content.strip(b"\0") else 0

    def store(self, content: bytes) -> int:
        packed = zlib.compress(content)
        stored = packed if len(packed) < len(content) else content
        self.file.write(stored)
        return len(stored) | (0 if stored is packed else STORED_DATA)

    def flush(self) -> None:
        start = self.file.tell()
        self.fragments.append(Fragment(start, self.store(self.ends)))
        self.ends = b""


def write_layer(path: Path, root: Tree, *, tails: bool = True) -> Path:
    """Write a squashfs; without ``tails`` the ends of files are blocks, too."""
    with path.open("wb") as file:
        file.seek(layout.SUPERBLOCK_SIZE)
        writer = _Writer(file, tails)
        node = writer.node(root)
        if writer.ends:
            writer.flush()
        tree.count_links(node)
        places = writer.places
        write_tables(file, 0, node, lambda each: places[id(each)], writer.fragments, FORM)
    return path


def read_file(layer: Squashfs, node: Node) -> bytes:
    """Return the content of a file of a layer."""
    return read_content(layer, node, 1 << 30)


def read_tree(path: Path) -> dict[bytes, object]:
    """Return each path of a squashfs with its mode and content, target or other names."""
    layer = reader.read_squashfs(path)
    tree.count_links(layer.root)
    entries: dict[bytes, object] = {}
    names: dict[int, list[bytes]] = {}
    waiting = [(b"", layer.root)]
    while waiting:
        folder, node = waiting.pop()
        for name, child in node.children.items():
            here = folder + b"/" + name
            content = read_file(layer, child) if child.kind == FILE else child.target
            entries[here] = (child.kind, child.mode, child.device, content)
            if child.kind == FOLDER:
                waiting.append((here, child))
            elif child.links > 1:
                names.setdefault(id(child), []).append(here)
    return entries | {b"links": sorted(map(sorted, names.values()))}
