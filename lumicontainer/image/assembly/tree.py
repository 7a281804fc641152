"""The tree of files in a squashfs, and what a layer changes in the tree below it."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from lumicontainer.image.assembly.layout import CHARACTER, FOLDER, NOTHING


@dataclass(slots=True, eq=False)
class Node:
    """Hold one inode; several names lead to it if it is hard-linked."""

    kind: int
    mode: int
    owner: int
    group: int
    time: int
    children: dict[bytes, "Node"] = field(default_factory=dict)
    layer: int = 0
    """The number of the layer that has its data."""
    start: int = 0
    """The place of its first block in the layer."""
    size: int = 0
    sparse: int = 0
    """The number of bytes that are zero and not stored."""
    blocks: tuple[int, ...] = ()
    """The stored sizes of its blocks, with ``STORED_DATA``."""
    fragment: int = NOTHING
    """The number of the fragment that has its end."""
    fragment_offset: int = 0
    target: bytes = b""
    device: int = 0
    links: int = 0
    """The number of its names in the merged tree; 0 if the tree does not have it."""
    number: int = 0
    inode: int = -1
    """Its number in the tables that are written, and the byte of the inodes where it is."""

    @property
    def is_whiteout(self) -> bool:
        """Return whether it removes the path that has its name in the tree below."""
        return self.kind == CHARACTER and self.device == 0

    def tail(self, block_size: int) -> tuple[int, int]:
        """Return the first and the last byte, exclusive, of its end in its fragment."""
        return self.fragment_offset, self.fragment_offset + self.size % block_size


def apply(tree: Node, layer: Node) -> None:
    """Apply a layer to the tree below it; the layer's nodes become part of the tree."""
    waiting = [(tree, layer)]
    while waiting:
        low, high = waiting.pop()
        low.mode, low.owner, low.group, low.time = high.mode, high.owner, high.group, high.time
        for name, node in high.children.items():
            below = low.children.get(name)
            if node.is_whiteout:
                low.children.pop(name, None)
            elif node.kind == FOLDER and below and below.kind == FOLDER:
                waiting.append((below, node))
            else:
                remove_whiteouts(node)
                low.children[name] = node


def remove_whiteouts(root: Node) -> None:
    """Remove the whiteouts of a tree that has nothing below it."""
    for folder in list(folders(root)):
        for name in [name for name, node in folder.children.items() if node.is_whiteout]:
            del folder.children[name]


def folders(root: Node) -> Iterator[Node]:
    """Yield the folders of a tree, each before those in it, in the order of their names."""
    waiting = [root] if root.kind == FOLDER else []
    while waiting:
        folder = waiting.pop()
        yield folder
        below = (name for name, node in folder.children.items() if node.kind == FOLDER)
        waiting.extend(folder.children[name] for name in sorted(below, reverse=True))


def find_node(root: Node, path: str) -> Node | None:
    """Return the node of an absolute path without links; None if it is missing."""
    node: Node | None = root
    for name in filter(None, path.encode().split(b"/")):
        node = node.children.get(name) if node else None
    return node


def remove(root: Node, path: str) -> None:
    """Remove an absolute path without links from a tree, if it is there."""
    above, _, name = path.rpartition("/")
    if folder := find_node(root, above):
        folder.children.pop(name.encode(), None)


def count_links(root: Node) -> None:
    """Set ``links`` of each node of the tree."""
    every = list(folders(root))
    for folder in every:
        for node in folder.children.values():
            node.links = 0
    root.links = 2
    for folder in every:
        for node in folder.children.values():
            if node.kind == FOLDER:
                folder.links += 1
                node.links = 2
            else:
                node.links += 1
